"""Jobs that cannot start: which rank, why, at which line, and how long the others have waited."""

from __future__ import annotations

import os
import pathlib
import socket
import sys

import pytest
from launches import Launch, findings

from jobs import torchrun

JOB = pathlib.Path(__file__).resolve().parent / "start_job.py"
NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}


def observed(launch: Launch, fault: str, *options: str, code: int, **variables: str) -> tuple[dict, str]:
    words = ["run", "--run-name", "r", *options, "--", *torchrun(2, JOB, fault)]
    done = launch.run(*words, timeout=180, env=NO_GPU | variables)
    assert done.returncode == code, done.stderr.decode()
    return launch.summary(), done.stderr.decode()


def lost(summary: dict) -> dict:
    """The one loss; it is what the job failed by, and nothing else claims to know."""
    assert summary["run"]["status"] == "crashed" and not findings(summary, "NO_DATA")
    (finding,) = findings(summary, "RANK_LOST")
    assert summary["primary"]["id"] == finding["id"] and finding["severity"] == "crit"
    return finding


def place(function: str, text: str) -> str:
    lines = JOB.read_text().splitlines()
    begin = lines.index(f"def {function}():")
    return f"start_job.py:{next(i for i, line in enumerate(lines[begin:], begin + 1) if text in line)} {function}"


@pytest.mark.slow
def test_a_rank_that_raises_while_another_waits_to_join(launch):
    finding = lost(observed(launch, "raises", code=1)[0])
    assert (finding["ranks"], finding["victims"], finding["phase"]) == ([1], [0], "startup")
    assert f"FileNotFoundError: tokenizer.json at {place('raises', 'raise FileNotFoundError')}" in finding["title"]
    assert "rank 0 waited" in finding["title"] and "in init_process_group" in finding["title"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault, cause, says",
    [
        ("missing_module", "exception", "ModuleNotFoundError: No module named 'no_such_module' at start_job.py:"),
        pytest.param("bad_option", "exit_code", "exit code 2 before its first step", marks=pytest.mark.long),
        ("dies", "exit_code", "exit code 7 before its first step"),
        pytest.param("exits", "exit_code", "exit code 3 before its first step", marks=pytest.mark.long),
    ],
)
def test_a_rank_that_ends_before_it_is_one(launch, fault, cause, says):
    finding = lost(observed(launch, fault, code=1)[0])
    assert (finding["ranks"], finding["cause"], finding["phase"]) == ([1], cause, "startup")
    assert says in finding["title"], finding["title"]


RANKS = """
import os, subprocess, sys
if "RANK" not in os.environ:
    ranks = [subprocess.Popen([sys.executable, *sys.argv], env=dict(os.environ, RANK=str(r), WORLD_SIZE="2")) for r in (0, 1)]
    sys.exit(any([p.wait() for p in ranks]))
"""


def test_a_script_that_does_not_parse(launch):
    """One program that fails before anything of it runs; without torch, without a rank."""
    (launch.folder / "broken.py").write_text("x = 1\nif x\n")
    done = launch.run("run", "--run-name", "r", "--", sys.executable, "broken.py")
    assert done.returncode == 1
    finding = lost(launch.summary())
    assert finding["scope"] == "job" and finding["cause"] == "exception"
    assert "SyntaxError" in finding["title"] and "broken.py:2" in finding["title"]


@pytest.mark.parametrize("code", [1, 127])
def test_a_command_that_fails_and_says_nothing(launch, code):
    done = launch.run("run", "--run-name", "r", "--", "sh", "-c", f"exit {code}")
    assert done.returncode == code
    assert f"ended with exit code {code} before any rank trained" in lost(launch.summary())["title"]


def test_of_ranks_without_torch_the_first_that_fails(launch):
    (launch.folder / "ranks.py").write_text(
        RANKS + "import time\nif os.environ['RANK'] == '1':\n    {}['batch']\ntime.sleep(2)\nraise OSError('late')\n"
    )
    assert launch.run("run", "--run-name", "r", "--", sys.executable, "ranks.py").returncode == 1
    finding = lost(launch.summary())
    assert finding["ranks"] == [1] and "KeyError: 'batch' at ranks.py" in finding["title"]
    said = [(e["rank"], e["text"]) for e in finding["evidence"] if e["name"] == "consequence"]
    assert [rank for rank, _ in said] == [0] and "OSError: late" in said[0][1]


def test_children_of_a_rank_and_programs_that_end_well_are_none(launch):
    (launch.folder / "ranks.py").write_text(
        RANKS
        + "import multiprocessing\n"
        + "subprocess.run([sys.executable, '-c', 'raise ValueError()'], stderr=subprocess.DEVNULL)\n"
        + "subprocess.run([sys.executable, '-c', 'import sys; sys.exit(4)'])\n"
    )
    assert launch.run("run", "--run-name", "r", "--", sys.executable, "ranks.py").returncode == 0
    summary = launch.summary()
    assert summary["run"]["status"] == "completed" and not findings(summary, "RANK_LOST")


def test_a_launcher_that_carries_a_rank_of_its_own_is_none(launch):
    """Schedulers give torchrun the rank of its node; its workers are the ranks, and the first that fails is said."""
    (launch.folder / "ranks.py").write_text("""
import os, subprocess, sys, time
if "LOCAL_RANK" not in os.environ:
    p = [subprocess.Popen([sys.executable, *sys.argv], env=dict(os.environ, RANK=str(r), LOCAL_RANK=str(r), WORLD_SIZE="2")) for r in (0, 1)]
    codes = [q.wait() for q in p]
    raise RuntimeError("a child failed")
if os.environ["RANK"] == "1":
    sys.exit(5)
time.sleep(1)
""")
    done = launch.run("run", "--run-name", "r", "--", sys.executable, "ranks.py", env={"RANK": "0", "WORLD_SIZE": "1"})
    assert done.returncode == 1
    finding = lost(launch.summary())
    assert finding["ranks"] == [1] and "exit code 5" in finding["title"]
    assert not any("a child failed" in e["text"] for e in finding["evidence"] if "text" in e)


@pytest.mark.slow
def test_a_rank_that_does_not_come_is_said_while_the_others_wait(launch):
    summary, said = observed(
        launch, "sleeps", "--set", "standstill_join_s=6", code=0, START_SECONDS="45", START_TIMEOUT="1800"
    )
    first = next(line for line in said.splitlines() if "HANG" in line)
    assert f"Rank 1 sleeps at {place('sleeps', 'time.sleep')} before init_process_group" in first, said
    assert "rank 0 waits in init_process_group" in first and "the job goes on after" in said
    assert summary["run"]["status"] == "completed" and not findings(summary, "HANG")


@pytest.mark.slow
def test_all_ranks_that_prepare_for_long_are_no_hang(launch):
    summary, said = observed(launch, "all_slow", "--set", "standstill_join_s=6", code=0, START_SECONDS="20")
    assert "HANG" not in said and summary["run"]["status"] == "completed"


@pytest.mark.slow
def test_a_timeout_that_comes_nearer_is_said(launch):
    _, said = observed(launch, "prepares", code=0, START_SECONDS="30", START_TIMEOUT="40")
    line = next(line for line in said.splitlines() if "TIMEOUT AHEAD" in line)
    assert f"Rank 0 is busy in startup at {place('sleeps', 'time.sleep')}" in line
    assert "rank 1 waits in barrier" in line and "the group's timeout of 40 s ends the job in" in line


@pytest.mark.slow
@pytest.mark.long
def test_a_timeout_that_comes_nearer_before_all_have_joined(launch):
    _, said = observed(launch, "sleeps", code=0, START_SECONDS="30", START_TIMEOUT="40")
    line = next(line for line in said.splitlines() if "TIMEOUT AHEAD" in line)
    assert "Rank 1 is busy in startup" in line and "rank 0 waits in init_process_group" in line


@pytest.mark.slow
def test_a_port_that_is_taken(launch):
    """Ranks that a script starts itself: rank 0 cannot listen, rank 1 waits for it."""
    with socket.socket() as other:
        other.bind(("0.0.0.0", 0))
        other.listen(8)
        where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(other.getsockname()[1])}
        code = RANKS.replace(
            "sys.exit(any([p.wait() for p in ranks]))",
            "code = ranks[0].wait()\n    ranks[1].kill()\n    sys.exit(code)",
        )
        (launch.folder / "two.py").write_text(
            code
            + f"sys.argv = [{str(JOB)!r}, 'none']\nexec(compile(open({str(JOB)!r}).read(), {str(JOB)!r}, 'exec'))\n"
        )
        done = launch.run("run", "--run-name", "r", "--", sys.executable, "two.py", env=NO_GPU | where, timeout=120)
    assert done.returncode == 1
    finding = lost(launch.summary())
    assert finding["ranks"] == [0] and "EADDRINUSE" in finding["title"] and "start_job.py:" in finding["title"]
    assert "holds that port" in finding["action"]
    assert os.path.exists(launch.run_dir() / "final_summary.txt")

"""Real jobs of two ranks that stand still: the right rank, cause and line, within seconds, while the job is alive."""

from __future__ import annotations

import os
import pathlib
import re
import signal
import subprocess
import time

import pytest
from launches import findings

from jobs import torchrun

JOB = pathlib.Path(__file__).resolve().parent / "hang_job.py"


def line_of(function: str, text: str, nth: int = 0) -> int:
    """Number of the nth line of `function` in the job that holds `text`."""
    lines = JOB.read_text().splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith(f"def {function}("))
    return [i for i, line in enumerate(lines[begin:], begin + 1) if text in line][nth]


class Hung:
    """A job under `stepscope run` whose hang was said; `seconds` from the fault to the word."""

    def __init__(self, launch, fault: str, *options: str, **variables: str):
        words = ["run", "--run-name", "r", *options, "--", *torchrun(2, JOB, fault)]
        self.launch, self.text = launch, ""
        self.process = launch.start(*words, stdin=subprocess.PIPE, env={"CUDA_VISIBLE_DEVICES": ""} | variables)

    def wait_for_word(self, timeout: float = 120) -> Hung:
        printed = ""
        os.set_blocking(self.process.stdout.fileno(), False)
        os.set_blocking(self.process.stderr.fileno(), False)
        deadline = time.monotonic() + timeout
        while "HANG" not in self.text and time.monotonic() < deadline and self.process.poll() is None:
            self.text += (self.process.stderr.read() or b"").decode()
            printed += (self.process.stdout.read() or b"").decode()
            time.sleep(0.05)
        faults = [float(at) for at in re.findall(r"fault (\d+\.\d+)", printed)]  # two ranks may share a line
        assert "HANG" in self.text, self.text
        self.seconds = time.time() - max(faults) if faults else float("nan")
        return self

    def end(self) -> dict:
        """Ends the job from outside, as a scheduler does, and returns the hang of its summary."""
        for number in (signal.SIGINT, signal.SIGCONT):
            os.killpg(self.process.pid, number)
        try:
            self.process.communicate(timeout=40)
        except subprocess.TimeoutExpired:
            self.process.kill()
        summary = self.launch.summary()
        assert summary["run"]["status"] == "hung"
        hang = summary["primary"]
        assert hang["kind"] == "HANG" and hang["severity"] == "crit", hang
        return hang


def where(hang: dict, rank: int) -> str:
    return next((e["text"] for e in hang["evidence"] if e["name"] == "where" and e.get("rank") == rank), "")


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault, cause, text, nth",
    [
        ("sleeps", "rank_silent", "time.sleep", 0),
        pytest.param("loops", "rank_silent", None, 0, marks=pytest.mark.long),
        pytest.param("waits_for_a_lock", "rank_silent", "lock.acquire", 1, marks=pytest.mark.long),
        ("holds_the_gil", "gil_held", "pthread_mutex_lock", 1),
        pytest.param("reads", "waiting_on_io", "input()", 0, marks=pytest.mark.long),
    ],
)
def test_a_rank_that_does_not_come(launch, fault, cause, text, nth):
    job = Hung(launch, fault).wait_for_word()
    assert 3 < job.seconds < 30, job.seconds  # patience is 5 s; docs/hang.md has what was measured
    hang = job.end()
    assert hang["ranks"] == [1] and hang["victims"] == [0] and hang["cause"] == cause, hang
    place = where(hang, 1)
    assert place.startswith("hang_job.py:") and fault in place, place
    if text:
        assert f"hang_job.py:{line_of(fault, text, nth)} {fault}" in place
    assert "backward" in where(hang, 0) or "hang_job.py" in where(hang, 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault, cause, ranks",
    [
        ("stops", "stopped", [1]),
        pytest.param("calls_another", "mismatched_collective", [0, 1], marks=pytest.mark.long),
        ("leaves", "uneven_steps", [0, 1]),
    ],
)
def test_causes_that_need_no_stack(launch, fault, cause, ranks):
    job = Hung(launch, fault, "--stacks", "off").wait_for_word()
    assert 3 < job.seconds < 30, job.seconds  # patience is 5 s; docs/hang.md has what was measured
    hang = job.end()
    assert (hang["cause"], hang["ranks"]) == (cause, ranks), hang


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault", ["validates", *(pytest.param(f, marks=pytest.mark.long) for f in ("saves", "compiles"))]
)
def test_what_takes_long_by_nature_is_no_hang(launch, fault):
    words = ["run", "--run-name", "r", "--", *torchrun(2, JOB, fault)]
    done = launch.run(*words, timeout=180, env={"CUDA_VISIBLE_DEVICES": ""})
    assert done.returncode == 0 and b"HANG" not in done.stderr, done.stderr.decode()
    assert launch.summary()["run"]["status"] == "completed" and not findings(launch.summary(), "HANG")


@pytest.mark.slow
def test_a_pause_is_withdrawn_when_the_job_goes_on(launch):
    job = Hung(launch, "pauses").wait_for_word()
    os.set_blocking(job.process.stderr.fileno(), True)
    _, rest = job.process.communicate(timeout=60)
    assert job.process.returncode == 0 and b"goes on after" in rest
    assert not findings(launch.summary(), "HANG") and launch.summary()["run"]["status"] == "completed"


@pytest.mark.slow
@pytest.mark.long
def test_the_groups_own_timeout_ends_it_with_its_own_code(launch):
    job = Hung(launch, "sleeps", HANG_SECONDS="12").wait_for_word()
    os.set_blocking(job.process.stdout.fileno(), True)
    os.set_blocking(job.process.stderr.fileno(), True)
    job.process.communicate(timeout=90)
    assert job.process.returncode == 1
    summary = launch.summary()
    assert summary["run"]["status"] == "hung" and summary["primary"]["kind"] == "HANG"
    assert all(f["severity"] == "info" for f in findings(summary, "RANK_LOST"))


@pytest.mark.slow
def test_abort_ends_the_job_and_keeps_the_stacks(launch):
    job = Hung(launch, "sleeps", "--on-hang", "abort", "--hang-timeout", "3").wait_for_word()
    os.set_blocking(job.process.stdout.fileno(), True)
    os.set_blocking(job.process.stderr.fileno(), True)
    job.process.communicate(timeout=60)
    assert job.process.returncode != 0 and launch.summary()["run"]["status"] == "hung"
    assert "sleeps" in (launch.run_dir() / "stacks" / "rank-1.txt").read_text()


@pytest.mark.slow
def test_a_checkpoint_that_may_outlast_the_groups_timeout(launch):
    words = ["run", "--run-name", "r", "--", *torchrun(2, JOB, "saves_long")]
    done = launch.run(*words, timeout=180, env={"CUDA_VISIBLE_DEVICES": "", "HANG_SECONDS": "40"})
    said = done.stderr.decode()
    assert done.returncode == 0 and "HANG" not in said, said
    line = next(line for line in said.splitlines() if "TIMEOUT AHEAD" in line)
    assert "Rank 1 is busy in checkpoint at hang_job.py:" in line and "rank 0 waits in all_reduce" in line, line
    assert "the group's timeout of 40 s ends the job in" in line
    assert not findings(launch.summary(), "TIMEOUT_AHEAD") and not findings(launch.summary(), "HANG")


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault, cause, says",
    [
        ("exits", "exit_code", "ended with exit code 1 after step 11"),
        pytest.param("exits_hard", "exit_code", "ended with exit code 3 after step 11", marks=pytest.mark.long),
        ("fails", "exception", "left with ValueError: bad batch at hang_job.py:"),
    ],
)
def test_a_rank_that_ends_while_the_others_wait(launch, fault, cause, says):
    """They lose the connection to it and fail as well: that is its echo. Where torch takes seconds to let the process
    go, the job stands meanwhile."""
    words = ["run", "--run-name", "r", "--", *torchrun(2, JOB, fault)]
    done = launch.run(*words, timeout=120, env={"CUDA_VISIBLE_DEVICES": ""})
    summary = launch.summary()
    assert done.returncode == 1 and summary["run"]["status"] in ("crashed", "hung")
    (finding,) = findings(summary, "RANK_LOST")
    assert (finding["ranks"], finding["victims"], finding["severity"]) == ([1], [0], "crit"), finding
    assert finding["cause"] == cause and says in finding["title"], finding["title"]
    assert summary["primary"]["kind"] in ("RANK_LOST", "HANG") and summary["primary"]["ranks"] == [1]


@pytest.mark.slow
def test_a_rank_that_leaves_in_order_while_the_others_wait(launch):
    words = ["run", "--run-name", "r", "--", *torchrun(2, JOB, "exits_in_order")]
    done = launch.run(*words, timeout=120, env={"CUDA_VISIBLE_DEVICES": ""})
    primary = launch.summary()["primary"]
    assert done.returncode == 1 and primary["kind"] in ("RANK_LOST", "HANG")
    assert (primary["ranks"], primary["cause"], primary["severity"]) == ([1], "uneven_steps", "crit"), primary

"""`stepscope.init()` without a launcher: the agent starts by itself, follows, writes the summary, and goes."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator

import pytest
from launches import Launch, findings, wait_for

from jobs import environment
from package import package_folder

LOOP = """
def loop(steps, seconds=0.002):
    for _ in range(steps):
        with stepscope.trace_step():
            with stepscope.trace_phase("work"):
                time.sleep(seconds)
"""


class Alone(Launch):
    """Programs that nobody launched, in a folder of their own."""

    def start(
        self, text: str, *, head: str = "import os, sys, time\nimport stepscope\n", name: str = "r", **env: str
    ) -> subprocess.Popen[str]:
        env = {"PYTHONPATH": str(package_folder().parent), "STEPSCOPE_RUN_NAME": name, **env}
        command = [sys.executable, "-c", head + LOOP + textwrap.dedent(text)]
        return self.spawn(command, environment(**env), text=True)

    def run(self, text: str, **kwargs: str) -> tuple[int, str, str]:
        process = self.start(text, **kwargs)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def summary(self, name: str = "r") -> dict:
        """The summary once the agent is through with it: it adds the exit code last."""
        folder = self.folder / "logs" / name

        def final() -> dict | None:
            manifest = folder / "manifest.json"
            if not manifest.exists() or json.loads(manifest.read_text())["status"] == "running":
                return None
            return json.loads((folder / "final_summary.json").read_text())

        return wait_for(final, what="the final summary")

    def shm(self, name: str = "r") -> pathlib.Path:
        return pathlib.Path(json.loads((self.folder / "logs" / name / "manifest.json").read_text())["shm_dir"])


@pytest.fixture
def alone(tmp_path: pathlib.Path) -> Iterator[Alone]:
    helper = Alone(tmp_path)
    yield helper
    helper.close()


def test_a_plain_script(alone: Alone) -> None:
    code, out, err = alone.run("print(stepscope.init()); loop(20)")
    assert (code, out) == (0, "True\n")
    assert "final_summary.json" in err, err
    summary = alone.summary()
    assert summary["steps"]["count"] == 20
    assert summary["run"]["status"] == "completed" and summary["run"]["exit_code"] == 0
    assert summary["run"]["command"][:2] == [sys.executable, "-c"]
    assert [r["state"] for r in summary["per_rank"]] == ["finished"]
    wait_for(lambda: not alone.shm().exists(), what="the shared folder to go")


def test_two_loops_as_in_a_notebook(alone: Alone) -> None:
    code, out, err = alone.run("stepscope.init(); loop(10); print('between'); stepscope.init(); loop(15); print('end')")
    assert (code, out) == (0, "between\nend\n")
    assert err.count("final_summary.json") == 1
    assert alone.summary()["steps"]["count"] == 25
    assert [p.name for p in (alone.folder / "logs").iterdir()] == ["r"]


def test_an_exception(alone: Alone) -> None:
    # What is uncaught is recorded by the hooks, which come with torch; a stand-in is enough.
    code, out, err = alone.run("stepscope.init(); loop(12); raise ValueError('no such luck')")
    assert code == 1 and "ValueError: no such luck" in err
    summary = alone.summary()
    assert summary["steps"]["count"] == 12
    assert summary["run"]["status"] == "crashed" and summary["run"]["exit_code"] == 1


def test_an_exit_code_is_kept(alone: Alone) -> None:
    code, _, _ = alone.run("stepscope.init(); loop(5); sys.exit(3)")
    assert code == 3
    summary = alone.summary()
    assert summary["run"]["exit_code"] == 3 and summary["run"]["status"] == "crashed"


def test_killed(alone: Alone) -> None:
    process = alone.start("stepscope.init(); loop(12); print('there', flush=True); time.sleep(60)")
    assert process.stdout is not None and process.stdout.readline() == "there\n"
    time.sleep(0.3)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait(timeout=20) == -signal.SIGKILL
    summary = alone.summary()
    assert summary["steps"]["count"] == 12
    assert summary["run"]["status"] == "crashed" and summary["run"]["exit_code"] in (137, None)
    assert findings(summary, "RANK_LOST")
    wait_for(lambda: not alone.shm().exists(), what="the shared folder to go")


def test_a_fork_of_the_program(alone: Alone) -> None:
    code, out, err = alone.run(
        """
        stepscope.init(); loop(5)
        for leave in (os._exit, sys.exit):
            pid = os.fork()
            if pid == 0:
                loop(7)
                leave(0)
            os.waitpid(pid, 0)
        loop(5)
        """
    )
    assert code == 0 and err.count("final_summary.json") == 1, err
    summary = alone.summary()
    assert summary["steps"]["count"] == 10
    assert len(summary["per_rank"]) == 1


def test_a_program_that_it_starts_is_a_run_of_its_own(alone: Alone) -> None:
    code, _, err = alone.run(
        """
        import subprocess
        stepscope.init(); loop(5)
        inner = "import stepscope, time\\nstepscope.init()\\nfor _ in range(7):\\n  with stepscope.trace_step(): time.sleep(0.002)"
        subprocess.run([sys.executable, "-c", inner], check=True, stderr=subprocess.DEVNULL)
        """
    )
    assert code == 0, err
    assert alone.summary()["steps"]["count"] == 5
    assert alone.summary("r-2")["steps"]["count"] == 7


def test_spawned_children_are_no_ranks(alone: Alone) -> None:
    path = alone.folder / "spawning.py"
    path.write_text(
        "import multiprocessing as mp, time\nimport stepscope\nstepscope.init()\n"
        "def work(): time.sleep(0.05)\n"
        "if __name__ == '__main__':\n"
        "    with stepscope.trace_step(): time.sleep(0.01)\n"
        "    child = mp.get_context('spawn').Process(target=work); child.start(); child.join()\n"
        "    with stepscope.trace_step(): time.sleep(0.01)\n"
    )
    code, _, err = alone.run(f"import subprocess\nsys.exit(subprocess.call([sys.executable, {str(path)!r}]))")
    assert code == 0 and err.count("final_summary.json") == 1, err
    summary = alone.summary()
    assert summary["steps"]["count"] == 2 and len(summary["per_rank"]) == 1
    assert not summary["observer"]["notes"], summary["observer"]["notes"]


def test_ranks_of_one_job_share_an_agent(alone: Alone) -> None:
    job = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29999"}
    meet = "open('up' + os.environ['RANK'], 'w').close()\nwhile len([f for f in os.listdir('.') if f[:2] == 'up']) < 2: time.sleep(0.01)\n"
    text = "stepscope.init()\n" + meet + "loop(60, 0.01)"
    ranks = [alone.start(text, RANK=str(r), LOCAL_RANK=str(r), **job) for r in range(2)]
    for rank in ranks:
        rank.communicate(timeout=60)
        assert rank.returncode == 0
    summary = alone.summary()
    assert [r["rank"] for r in summary["per_rank"]] == [0, 1]
    # What the agent read of each; rows that closed before it had seen the second rank lack a cell.
    manifest = json.loads((alone.folder / "logs/r/manifest.json").read_text())
    assert sorted((r["rank"], r["steps"]) for r in manifest["ranks"]) == [(0, 60), (1, 60)]
    assert [p.name for p in (alone.folder / "logs").iterdir()] == ["r"]


@pytest.mark.parametrize(
    "stand_in, reason",
    [("None", "no stepscope command"), ("'/bin/false'", "exit code 1"), ("'/bin/true'", "exit code 0")],
)
def test_without_an_agent_the_program_goes_on(alone: Alone, stand_in: str, reason: str) -> None:
    code, out, err = alone.run(
        f"from stepscope import _agent; _agent.binary = lambda: {stand_in}\nprint(stepscope.init()); loop(5)"
    )
    assert (code, out) == (0, "False\n")
    assert err.count("\n") == 1 and reason in err


def test_disabled(alone: Alone) -> None:
    code, out, err = alone.run("print(stepscope.init()); loop(5)", STEPSCOPE_DISABLE="1")
    assert (code, out, err) == (0, "False\n", "")
    assert not (alone.folder / "logs").exists()


def test_no_logs_folder(alone: Alone) -> None:
    code, out, err = alone.run("print(stepscope.init()); loop(5)", STEPSCOPE_LOGS_DIR="/proc/nowhere")
    assert (code, out) == (0, "True\n")
    assert "/proc/nowhere" in err and "5 steps" in err, err


@pytest.mark.slow
def test_a_real_training(alone: Alone) -> None:
    head = "import os, sys, time\nimport stepscope\nstepscope.init()\nimport torch\n"
    code, out, err = alone.run(
        """
        model = torch.nn.Linear(8, 2); optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(30):
            optimizer.zero_grad(); model(torch.randn(4, 8)).sum().backward(); optimizer.step()
        raise KeyboardInterrupt
        """,
        head=head,
    )
    assert code == -signal.SIGINT, err
    summary = alone.summary()
    assert summary["steps"]["count"] == 30
    assert summary["run"]["status"] == "interrupted"
    assert summary["run"]["versions"]["torch"]


@pytest.mark.slow
def test_ranks_that_the_main_process_spawns(alone: Alone) -> None:
    path = alone.folder / "spawning.py"
    path.write_text(
        "import os, time\nimport stepscope\nstepscope.init()\nimport torch\nimport torch.distributed as dist\n"
        "def train(rank):\n"
        "    os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT='29613')\n"
        "    dist.init_process_group('gloo', rank=rank, world_size=2)\n"
        "    model = torch.nn.Linear(4, 2); ddp = torch.nn.parallel.DistributedDataParallel(model)\n"
        "    optimizer = torch.optim.SGD(ddp.parameters(), 0.1)\n"
        "    for _ in range(20):\n"
        "        optimizer.zero_grad(); ddp(torch.ones(3, 4)).sum().backward(); optimizer.step()\n"
        "    del ddp\n    dist.destroy_process_group()\n    time.sleep(0.5)\n"
        "if __name__ == '__main__':\n"
        "    torch.multiprocessing.spawn(train, nprocs=2)\n"
    )
    code, _, err = alone.run(f"import subprocess\nsys.exit(subprocess.call([sys.executable, {str(path)!r}]))")
    assert code == 0, err
    summary = alone.summary()
    assert [(r["rank"], r["steps"]) for r in summary["per_rank"]] == [(0, 20), (1, 20)], summary["observer"]
    assert summary["run"]["world_size"] == 2 and not summary["observer"]["notes"]


def test_names_that_somebody_else_has_taken(alone: Alone) -> None:
    """Where the ranks of a job meet can be guessed. A file, a folder that others may enter, or one of another user in
    that place keeps nobody from being observed, and the ranks meet all the same."""
    job = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29998"}
    code, _, err = alone.run("stepscope.init(); loop(3)", name="first", RANK="0", LOCAL_RANK="0", **job)
    assert code == 0, err
    alone.summary("first")
    place = alone.shm("first")
    wait_for(lambda: not place.exists(), what="the shared folder to go")
    place.write_text("")
    try:
        meet = """
open('up' + os.environ['RANK'], 'w').close()
while len([f for f in os.listdir('.') if f[:2] == 'up']) < 2: time.sleep(0.01)
"""
        code = "stepscope.init()\n" + meet + "loop(60, 0.01)"
        ranks = [alone.start(code, RANK=str(r), LOCAL_RANK=str(r), **job) for r in range(2)]
        for rank in ranks:
            _, err = rank.communicate(timeout=60)
            assert rank.returncode == 0, err
        assert [r["rank"] for r in alone.summary()["per_rank"]] == [0, 1]
        place.unlink()
        place.mkdir(mode=0o777)
        place.chmod(0o777)
        code, _, err = alone.run("stepscope.init(); loop(7)", name="third", RANK="0", LOCAL_RANK="0", **job)
        assert code == 0 and alone.summary("third")["steps"]["count"] == 7, err
    finally:
        if place.is_dir():
            place.rmdir()
        else:
            place.unlink(missing_ok=True)

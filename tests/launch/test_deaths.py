"""Somebody dies: a rank, the agent (once, twice, frozen), the launcher. The training ends as it would without us."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest
from launches import children, command_of, findings, name_of, wait_for

RANKS = """
# a launcher of two ranks, as torchrun does it: the first that falls takes the other with it
import signal, subprocess
if "RANK" not in os.environ:
    ranks = [subprocess.Popen([sys.executable, *sys.argv], env=dict(os.environ, RANK=str(r), WORLD_SIZE="2")) for r in (0, 1)]
    print(*[p.pid for p in ranks], flush=True)
    while all(p.poll() is None for p in ranks):
        time.sleep(0.02)
    bad = [p for p in ranks if p.poll()]
    for p in ranks:
        if bad and p.poll() is None:
            p.terminate()
    codes = [p.wait() for p in ranks]
    sys.exit(1 if any(codes) else 0)
r = FakeRank()
for i in range(int(sys.argv[1])):
    r.step(4)
    if i == 50:
        open(f"going-{r.rank}", "w").close()
    if sys.argv[2:] == ["raise"] and r.rank == 1 and i == 20:
        r.exception("ValueError: boom")
        r.close(exception=True)
        sys.exit(1)
r.close()
"""


def both_going(launch) -> None:
    """Both ranks of RANKS have some fifty steps behind them."""
    wait_for(lambda: all((launch.folder / f"going-{r}").exists() for r in (0, 1)), what="two ranks that train")


def test_a_killed_rank_is_named_with_its_signal_and_last_step(launch):
    process = launch.start("run", "--run-name", "r", launch.script(RANKS), "3000")
    pids = [int(p) for p in process.stdout.readline().split()]
    both_going(launch)
    os.kill(pids[1], signal.SIGKILL)
    started = time.monotonic()
    process.communicate(timeout=30)
    assert time.monotonic() - started < 5
    assert process.returncode == 1
    summary = launch.summary()
    assert summary["run"]["status"] == "crashed"
    (lost,) = findings(summary, "RANK_LOST")
    assert lost["ranks"] == [1] and lost["cause"] == "signal_9"
    manifest = json.loads((launch.run_dir() / "manifest.json").read_text())
    deaths = {r["rank"]: r for r in manifest["ranks"]}
    assert (deaths[1]["exit_signal"], deaths[0]["exit_signal"]) == (9, 15)
    assert deaths[1]["end_ns"] < deaths[0]["end_ns"]
    assert abs(lost["steps"]["first"] - deaths[1]["steps"]) <= 1
    assert len(list((launch.run_dir() / "blackbox").glob("*.ring"))) == 2


def test_a_rank_that_raises(launch):
    result = launch.run("run", "--run-name", "r", launch.script(RANKS), "60", "raise")
    assert result.returncode == 1
    summary = launch.summary()
    assert summary["run"]["status"] == "crashed"
    (lost,) = findings(summary, "RANK_LOST")
    assert lost["ranks"] == [1] and "ValueError: boom" in lost["title"]


def test_raise_before_the_first_step_and_no_training_at_all(launch):
    result = launch.run("run", "--run-name", "r", launch.script("raise RuntimeError('early')"))
    assert result.returncode == 1 and b"RuntimeError: early" in result.stderr
    assert launch.summary()["run"]["status"] == "crashed"
    result = launch.run("run", "--run-name", "s", launch.script("print('no training')"))
    assert result.returncode == 0
    summary = launch.summary("s")
    assert summary["run"]["status"] == "completed" and summary["steps"]["count"] == 0
    assert findings(summary, "NO_DATA")


def agent_of(launch, process) -> int:
    return wait_for(lambda: launch.agents(process.pid), what="an agent")[0]


LONG = "r = FakeRank(capacity=int(sys.argv[2]))\nprint('ready', flush=True)\nfor _ in range(int(sys.argv[1])): r.step(4)\nr.close()\n"


@pytest.mark.parametrize("capacity", [4096, 512])
def test_a_killed_agent_is_started_again_and_counts_on(launch, capacity):
    """With 512 slots the ring holds 60 of 300 steps: the numbers must go on where the first agent was."""
    process = launch.start("run", "--run-name", "r", launch.script(LONG), "300", str(capacity))
    process.stdout.readline()
    first = agent_of(launch, process)
    time.sleep(0.9)
    os.kill(first, signal.SIGKILL)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 0
    summary = launch.summary()
    assert summary["run"]["status"] == "completed"
    assert summary["steps"]["count"] == 300
    assert any("restarted" in note for note in summary["observer"]["notes"])
    assert b"300 steps" in err


def test_an_agent_killed_twice_costs_the_summary_only(launch):
    process = launch.start("run", "--run-name", "r", launch.script(LONG), "300", "4096")
    process.stdout.readline()
    first = agent_of(launch, process)
    os.kill(first, signal.SIGKILL)
    second = wait_for(lambda: [a for a in launch.agents(process.pid) if a != first], what="a second agent")[0]
    os.kill(second, signal.SIGKILL)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 0
    assert b"the agent died twice" in err
    assert not (launch.run_dir() / "final_summary.json").exists()


@pytest.mark.parametrize("steps", [100, 1000])
def test_a_frozen_agent_is_woken_at_the_end(launch, steps):
    process = launch.start("run", "--run-name", "r", launch.script(LONG), str(steps), "16384")
    process.stdout.readline()
    os.kill(agent_of(launch, process), signal.SIGSTOP)
    _, err = process.communicate(timeout=40)
    assert process.returncode == 0
    assert launch.summary()["steps"]["count"] == steps
    assert str(steps).encode() + b" steps" in err.replace(b",", b"")


def test_a_killed_launcher_leaves_training_and_summary_alone(launch):
    script = launch.script(LONG + "open('trained', 'w').close()")
    process = launch.start("run", "--run-name", "r", script, "200", "4096")
    process.stdout.readline()
    agent = agent_of(launch, process)
    os.kill(process.pid, signal.SIGKILL)
    wait_for(lambda: (launch.folder / "trained").exists(), what="the training's end")
    wait_for(lambda: not command_of(agent), what="the agent's end")
    summary = launch.summary()
    assert summary["steps"]["count"] == 200
    assert summary["run"]["status"] == "completed"
    manifest = json.loads((launch.run_dir() / "manifest.json").read_text())
    assert not os.path.exists(manifest["shm_dir"])


def test_sigterm_at_the_agent_changes_nothing(launch):
    process = launch.start("run", "--run-name", "r", launch.script(LONG), "150", "4096")
    process.stdout.readline()
    os.kill(agent_of(launch, process), signal.SIGTERM)
    process.communicate(timeout=30)
    assert launch.summary()["steps"]["count"] == 150


def test_the_witness_dies_and_signals_still_arrive(launch):
    process = launch.start(
        "run", "--run-name", "r", launch.script("print('ready', flush=True)\nr = FakeRank()\nwhile True: r.step(4)")
    )
    process.stdout.readline()
    (witness,) = [c for c in children(process.pid) if name_of(c) == "stepscope-sig"]
    os.kill(witness, signal.SIGKILL)
    time.sleep(0.1)
    os.kill(process.pid, signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 128 + 15


def test_ranks_started_again_are_another_attempt(launch):
    """An elastic restart: rank 1 is killed in attempt 0, attempt 1 completes."""
    script = launch.script("""
        import signal, subprocess
        if "RANK" not in os.environ:
            for attempt in (0, 1):
                env = dict(os.environ, WORLD_SIZE="2", TORCHELASTIC_RESTART_COUNT=str(attempt))
                ranks = [subprocess.Popen([sys.executable, *sys.argv], env=dict(env, RANK=str(r))) for r in (0, 1)]
                if attempt == 0:
                    while not all(os.path.exists(f"going-{r}") for r in (0, 1)):
                        time.sleep(0.01)
                    ranks[1].kill()
                    ranks[1].wait()
                    time.sleep(0.1)
                    ranks[0].terminate()
                codes = [p.wait() for p in ranks]
            sys.exit(1 if any(codes) else 0)
        r = FakeRank()
        for i in range(2000 if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" else 50):
            r.step(4)
            if i == 50:
                open(f"going-{r.rank}", "w").close()
        r.close()
    """)
    result = launch.run("run", "--run-name", "r", script)
    assert result.returncode == 0
    summary = launch.summary()
    assert (summary["run"]["attempts"], summary["run"]["status"]) == (2, "completed")
    (lost,) = findings(summary, "RANK_LOST")
    assert lost["ranks"] == [1] and "(attempt 1)" in lost["title"]
    assert summary["steps"]["count"] > 50
    assert len(list((launch.run_dir() / "blackbox").glob("*.ring"))) >= 2


def test_scribbled_and_truncated_rings(launch):
    """Damage of a ring costs its records, nothing else."""
    script = launch.script("""
        r = FakeRank()
        for _ in range(30): r.step(4)
        time.sleep(0.4)  # read by now: what is scribbled over is history
        fd = os.open(r.path, os.O_RDWR)
        if sys.argv[1] == "scribble":
            os.pwrite(fd, os.urandom(200000), 0)
        else:
            os.ftruncate(fd, 100000)
        os.close(fd)
        time.sleep(0.3)
        print("trained", flush=True)
        os._exit(0)
    """)
    for how in ("scribble", "truncate"):
        result = launch.run("run", "--run-name", how, script, how)
        assert (result.returncode, result.stdout) == (0, b"trained\n")
        summary = launch.summary(how)
        assert 28 <= summary["steps"]["count"] <= 30
        noted = any("scribbled over or cut short" in note for note in summary["observer"]["notes"])
        assert noted or how == "truncate"  # what was cut off had been read


def test_a_ring_of_another_version_is_refused_by_name(launch):
    script = launch.script("r = FakeRank(version=9)\nr.step(1)\nr.close()")
    launch.run("run", "--run-name", "r", script)
    assert any("version 9" in text for text in launch.summary()["observer"]["unavailable"])


def test_recorders_that_stayed_off_say_why(launch):
    script = launch.script(
        "open(os.environ['STEPSCOPE_RUN_DIR'] + f'/off-{os.getpid()}.txt', 'w').write('no room in /dev/shm\\n')"
    )
    launch.run("run", "--run-name", "r", script)
    assert "recorder: no room in /dev/shm" in launch.summary()["observer"]["unavailable"]

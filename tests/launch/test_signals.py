"""Ctrl-C, SIGTERM, hang-ups: the training gets each exactly once, its exit code is kept, the summary is written."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from launches import findings, wait_for

COUNTING = """
import signal
seen = []
for s in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP):
    signal.signal(s, lambda n, f: seen.append(n))
r = FakeRank()
print("ready", flush=True)
until = time.monotonic() + float(sys.argv[1])
while time.monotonic() < until:
    r.step(4)
r.close()
print(*seen, flush=True)
"""


def ready(process) -> None:
    assert process.stdout.readline() == b"ready\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP])
@pytest.mark.parametrize("whole_group", [True, False])
def test_each_signal_arrives_once(launch, number, whole_group):
    process = launch.start("run", "--run-name", "r", launch.script(COUNTING), "1.0")
    ready(process)
    time.sleep(0.2)
    (os.killpg if whole_group else os.kill)(process.pid, number)
    out, _ = process.communicate(timeout=30)
    assert out.split() == [str(int(number)).encode()]
    assert process.returncode == 0
    status = launch.summary()["run"]["status"]
    assert status == ("completed" if number == signal.SIGUSR1 else "interrupted")


def witness_of(pid: int) -> int:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return next(int(c) for c in children if Path(f"/proc/{c}/comm").read_text() == "stepscope-sig\n")


def test_a_signal_to_the_group_arrives_once_on_a_machine_too_busy_for_the_witness(launch):
    process = launch.start("run", "--run-name", "r", launch.script(COUNTING), "1.0")
    ready(process)
    witness = witness_of(process.pid)
    os.kill(witness, signal.SIGSTOP)
    os.killpg(process.pid, signal.SIGUSR1)
    time.sleep(0.3)
    os.kill(witness, signal.SIGCONT)
    time.sleep(0.2)
    os.kill(process.pid, signal.SIGUSR1)  # and the next one, to the launcher alone, arrives too
    out, _ = process.communicate(timeout=30)
    assert out.split() == [str(int(signal.SIGUSR1)).encode()] * 2
    assert process.returncode == 0


ENDLESS = "r = FakeRank()\nprint('ready', flush=True)\nwhile True: r.step(4)\n"


@pytest.mark.parametrize(
    "number, group, code",
    [
        (signal.SIGINT, True, 128 + 2),
        (signal.SIGTERM, True, 128 + 15),
        (signal.SIGTERM, False, 128 + 15),
        (signal.SIGHUP, False, 128 + 1),
    ],
)
def test_a_signal_ends_the_run_with_a_summary(launch, number, group, code):
    process = launch.start("run", "--run-name", "r", launch.script(ENDLESS))
    ready(process)
    time.sleep(0.4)
    (os.killpg if group else os.kill)(process.pid, number)
    started = time.monotonic()
    _, err = process.communicate(timeout=30)
    assert time.monotonic() - started < 5
    assert process.returncode == code
    summary = launch.summary()
    assert summary["run"]["status"] == "interrupted"
    assert summary["steps"]["count"] > 20
    assert findings(summary, "RANK_LOST") == []
    assert b"interrupted" in err


def test_signal_before_the_first_step(launch):
    process = launch.start("run", "--run-name", "r", launch.script("print('ready', flush=True)\ntime.sleep(60)"))
    ready(process)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 128 + 2
    assert launch.summary()["run"]["status"] == "interrupted"


def test_signal_at_once(launch):
    """At any moment: also while the launcher is still starting. Whatever happens, nothing hangs and nothing is left."""
    script = launch.script("time.sleep(60)")
    before = set(os.listdir("/dev/shm"))
    for delay in (0.0, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1):
        process = launch.start("run", script)
        time.sleep(delay)
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate(timeout=30)
        assert process.returncode in (128 + 15, -15), delay
    left = [n for n in os.listdir("/dev/shm") if n.startswith(f"stepscope-{os.getuid()}-") and n not in before]
    wait_for(lambda: not [n for n in left if n in os.listdir("/dev/shm")], what="shared memory given back")


def test_stop_and_continue(launch):
    """A group that is stopped (Ctrl-Z, a scheduler) stops launcher and training together; both go on."""
    process = launch.start("run", "--run-name", "r", launch.script(COUNTING), "0.6")
    ready(process)
    os.killpg(process.pid, signal.SIGSTOP)
    time.sleep(0.3)
    with open(f"/proc/{process.pid}/stat", encoding="utf-8") as file:
        assert file.read().rpartition(")")[2].split()[0] == "T"
    os.killpg(process.pid, signal.SIGCONT)
    process.communicate(timeout=30)
    assert process.returncode == 0
    assert launch.summary()["run"]["status"] == "completed"

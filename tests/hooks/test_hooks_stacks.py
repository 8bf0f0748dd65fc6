"""The rank's answer to "where are you?": right frames in any state, and a training that does not notice."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import PIPE, Popen

import pytest
from hook_jobs import JOBS, make_runner

import jobs
from asking import HOLDS_GIL, ask, read

JOB = JOBS / "where.py"
Start = Callable[..., tuple[Popen, int, Path]]


@pytest.fixture
def start(tmp_path) -> Iterator[Start]:
    mark, started = jobs.Mark(), list[Popen]()

    def begin(*words: str, **variables: str) -> tuple[Popen, int, Path]:
        env = make_runner().environment(tmp_path, {"RANK": "0", "WORLD_SIZE": "1"} | variables)
        process = jobs.start([sys.executable, JOB, *words], env, mark, stdin=PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        pid, path = process.stdout.readline().split()
        if variables.get("STEPSCOPE_STACKS") != "off":
            wait_until_inside(words[0], Path(path), int(pid))
        return process, int(pid), Path(path)

    yield begin
    mark.bury()
    for process in started:
        process.communicate()


def wait_until_inside(place: str, path: Path, pid: int, timeout: float = 60) -> None:
    """Returns once the main thread runs `place`, and has blocked in it where it is going to."""
    deadline, request = time.monotonic() + timeout, 20000
    while not any(frame[1].split(".")[0] == place for frame in ask(path, pid, request).frames):
        assert time.monotonic() < deadline, f"never in {place}"
        request += 1
    while place not in ("spins", "trains") and not in_state(pid, "S"):
        assert time.monotonic() < deadline, f"never blocked in {place}"
        time.sleep(0.01)


def line_of(function: str, text: str) -> int:
    """Number of the first line of `function` in the job that holds `text`."""
    lines = JOB.read_text().splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith(f"def {function}("))
    return next(i for i, line in enumerate(lines[begin:], begin + 1) if text in line)


def in_state(pid: int, state: str) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == state


@pytest.mark.parametrize(
    "place, text, state, gil",
    [
        ("sleeps", "time.sleep", "S", False),
        ("holds_the_gil", "lib.pthread_mutex_lock", "S", True),
        ("waits_for_a_lock", "lock.acquire", "S", False),
        ("reads", "input()", "S", False),
    ],
)
def test_the_line_is_named_whatever_blocks(start, place, text, state, gil):
    process, pid, path = start(place)
    box = ask(path, pid, 7)
    line, function, file = box.frames[0]
    assert function == place and file.endswith("jobs/where.py"), box
    expected = line_of(place, text) + (place == "holds_the_gil")  # the second lock blocks
    assert line == expected and bool(box.flags & HOLDS_GIL) == gil, box
    assert box.frames[1][1] == "<module>" and box.thread == pid
    time.sleep(0.1)
    assert process.poll() is None and in_state(pid, state), "it goes on waiting"


def test_a_loop_is_met_inside_and_goes_on(start):
    process, pid, path = start("spins")
    inside = range(line_of("spins", "while True"), line_of("spins", "at += 1") + 1)
    for request in range(1, 40):
        assert ask(path, pid, request).frames[0][0] in inside
    assert process.poll() is None


def test_a_deep_stack_is_cut_at_its_outer_end(start):
    _process, pid, path = start("deep")
    box = ask(path, pid, 3)
    assert box.flags & 1 and 20 < len(box.frames) <= 64
    assert {f[1] for f in box.frames} == {"deep.<locals>.down"}


def test_other_signals_of_that_number_and_forked_children_are_left_alone(start):
    process, pid, path = start("sleeps")
    before = ask(path, pid, 5)
    os.kill(pid, before.signal)  # not the agent's question
    time.sleep(0.2)
    assert process.poll() is None and read(path) == before


def test_switched_off_it_listens_to_nothing(start):
    _process, pid, path = start("sleeps", STEPSCOPE_STACKS="off")
    assert read(path).signal == 0
    caught = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigCgt"))
    mask = int(caught.split()[1], 16)
    assert all(not mask >> (n - 1) & 1 for n in range(signal.SIGRTMIN + 7, signal.SIGRTMAX + 1))

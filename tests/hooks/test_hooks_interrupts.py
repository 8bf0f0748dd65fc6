"""What a signal handler raises while code of ours runs is the program's, in whichever hook it happens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PLACES = ("queue", "queue_at_the_end", "iterator", "forward", "optimizer", "boundary", "wrapped", "wrapped_after")


@pytest.fixture(scope="module")
def hooked(run):
    return run("interrupts.py").check()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", ["KeyboardInterrupt", "SystemExit", "Gone"])
def test_the_handlers_exception_arrives(hooked, place, kind):
    assert hooked.said[f"{place} {kind}"] == "handler"


def test_what_was_wrapped_does_not_begin_after_an_interrupt(hooked):
    assert "original_ran" not in hooked.said


def test_hooks_are_whole_afterwards(hooked):
    assert hooked.said["done"] is True
    assert hooked.box.count("Forward>") == hooked.box.count("Forward<")
    assert hooked.box.count("Fetch>") == hooked.box.count("Fetch<")


def test_standard_queues_are_looked_at_without_python(hooked):
    assert hooked.said["calls"] == 1, "only the queue that counts in its own way is asked"
    ready = [r.c for r in hooked.box.of("Fetch<")][-8:]
    assert ready == [3, 3, 3, 3, 3, 3, 2, 2]


def test_errors_are_dropped_in_one_place():
    """Only drop_error() may clear: it knows which errors are ours."""
    sources = Path(__file__).resolve().parents[2] / "src" / "recorder"
    clearing = [p.name for p in sources.glob("*.[ch]*") if re.search(r"PyErr_Clear\(|PyErr_Restore\(", p.read_text())]
    assert set(clearing) <= {"python_interrupt.cc"}

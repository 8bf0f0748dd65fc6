"""The user's exceptions pass through every hook untouched, end marks are written, and modules stay what they were."""

from __future__ import annotations

import pytest
from test_hooks_loops import sections


@pytest.fixture(scope="module")
def hooked(run):
    return run("raising.py", "die")


def test_exceptions_are_the_users_own(hooked):
    said = hooked.said
    for name in ("forward", "backward", "closure", "optimizer", "loader", "saving", "scaler", "phase"):
        assert said[name] == name, hooked.stderr[-3000:]


def test_ends_are_written(hooked):
    parts = sections(hooked.rings[0])
    for name, kind in (
        ("forward", "Forward"),
        ("backward", "Backward"),
        ("loader", "Fetch"),
        ("saving", "Save"),
        ("scaler", "ScalerStep"),
    ):
        whats = [r.what for r in parts[name] if r.kind == kind]
        assert whats and whats.count(kind + ">") == whats.count(kind + "<"), (name, whats)
    assert [r.flags for r in parts["loader"] if r.what == "Fetch<"] == [2]


def test_the_last_words(hooked):
    (box,) = hooked.rings
    assert hooked.rc == 1
    assert "ValueError: NaN loss in batch 150" in hooked.stderr and "second line" in hooked.stderr
    assert box.named(7) == ["ValueError: NaN loss in batch 150"]
    assert box.count("Exception") == 1
    assert box.life == 1 | 2 | 4


def test_a_hooked_module_is_still_a_module(hooked):
    said = hooked.said
    assert said["hooks"] == said["hooks_after"] == 1
    assert said["imports_us"] is False
    for what in ("deepcopy", "pickle", "saved", "traced", "scripted"):
        assert said[what] is True, what


def test_hooks_that_the_user_removed_do_no_harm(hooked):
    records = sections(hooked.rings[0])["hooks removed by the user"]
    assert not any(r.kind == "Forward" for r in records)
    assert sum(r.what == "Optimizer<" for r in records) == 1

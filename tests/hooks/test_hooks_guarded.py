"""The hooks of modules for torch before 2.5."""

from __future__ import annotations


def test_they_are_pickled_as_nothing_and_break_no_graph(run):
    said = run("guarded.py").check().said
    assert said == {"named": False, "same": [True, True], "breaks": 0}

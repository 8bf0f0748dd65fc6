"""What `make thirdparty` takes for a difference, on runs made up here; the suites themselves need the package index."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from compare import compare

from section import TITLE, renewed, split


@dataclass
class Ran:
    code: int = 0
    elapsed_s: float = 0.0
    cpu_s: float = 0.0
    tests: dict[str, dict[str, Any]] = field(default_factory=dict)


def ran(code: int = 0, **changed: Any) -> Ran:
    """A run of two tests; ``changed``: what the first did otherwise."""
    test = {
        "outcome": {"call": "passed"},
        "raised": "",
        "warnings": ["UserWarning a.py:1 slow"],
        "said": {"stdout": "3\n"},
        "seconds": 1.0,
    }
    return Ran(code, tests={"a": {**test, **changed}, "b": test})


CHANGES = [
    {"outcome": {"call": "failed"}},
    {"outcome": {"call": "passed", "teardown": "failed"}},
    {"raised": "RuntimeError: undefined value"},
    {"warnings": []},
    {"warnings": ["UserWarning _wrapper.py:9 slow"]},
    {"warnings": ["UserWarning a.py:1 slow"] * 2},
    {"said": {"stdout": "3\n", "stderr": "stepscope: hello\n"}},
]


@pytest.mark.parametrize("change", CHANGES)
def test_what_only_observed_runs_do_differs(change):
    assert compare([ran(), ran()], [ran(), ran(**change)]).differing == ["a"]
    assert compare([ran(), ran()], [ran(**change), ran(**change)]).differing == ["a"]


@pytest.mark.parametrize("change", CHANGES)
def test_what_bare_runs_do_now_and_then_is_set_aside(change):
    verdict = compare([ran(), ran(**change)], [ran(**change), ran()])
    assert not verdict.differences
    assert len(verdict.flaky) + verdict.unsteady == 1


def test_a_test_that_is_missing_or_new_differs():
    without = Ran(tests={"b": ran().tests["b"]})
    assert compare([ran(), ran()], [ran(), without]).differing == ["a"]
    assert compare([without, without], [ran(), without]).differing == ["a"]


def test_an_exit_code_differs_unless_bare_ones_do():
    assert compare([ran(), ran()], [ran(1), ran()]).differences
    assert not compare([ran(1), ran()], [ran(1), ran()]).differences


def test_seconds_that_differ_each_time_hide_no_line():
    bare = [ran(said={"stdout": "epoch 1 0.0131 s\n"}), ran(said={"stdout": "epoch 1  12.5 s\n"})]
    verdict = compare(bare, [ran(said={"stdout": "epoch 1 7.0e-05 s\n"})])
    assert not verdict.differences and verdict.unsteady == 1
    assert compare(bare, [ran(said={"stdout": "epoch 1 0.02 s\nstepscope\n"})]).differing == ["a"]


def test_unsteady_warnings_hide_no_output():
    bare = [ran(warnings=["a"]), ran(warnings=["b"])]
    assert compare(bare, [ran(warnings=["a"], said={"stdout": "4\n"})]).differing == ["a"]


def test_the_order_of_warnings_is_no_difference():
    assert not compare([ran(warnings=["a", "b"])], [ran(warnings=["b", "a"])]).differences


def test_seconds_are_those_of_steady_tests_in_every_run():
    bare = [ran(seconds=1.0), ran(seconds=3.0)]
    verdict = compare(bare, [ran(seconds=2.2), ran(seconds=2.2)])
    assert (verdict.bare_s, verdict.observed_s) == (3.0, 3.2)
    flaky = compare([ran(), ran(outcome={"call": "failed"})], [ran(seconds=60.0)])
    assert (flaky.bare_s, flaky.observed_s) == (1.0, 1.0)


def test_the_two_programs_keep_each_others_part_of_the_page():
    page = "# What was run\n\n| loops |\n"
    once = renewed(page, ["first"])
    twice = renewed(once, ["second"])
    assert split(twice) == (page, f"{TITLE}\n\nsecond\n")
    assert "first" not in twice

"""A small share of the random fault run; all of it: run_chaos.py --jobs 200."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from strikes import KINDS, Fault

import jobs

HERE = Path(__file__).resolve().parent


def test_a_seed_draws_the_same_fault_again() -> None:
    assert [Fault.draw(s, 100) for s in range(50)] == [Fault.draw(s, 100) for s in range(50)]
    assert {Fault.draw(s, 100).kind for s in range(200)} == set(KINDS)


@pytest.mark.slow
def test_six_random_faults(tmp_path: Path) -> None:
    words = [HERE / "run_chaos.py", "--jobs", "6", "--seed", "2026", "--keep", tmp_path]
    jobs.run([sys.executable, *words], timeout_s=1200).check()

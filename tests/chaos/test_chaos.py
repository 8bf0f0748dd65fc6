"""A small share of the random fault run; all of it: run_chaos.py --jobs 200."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from strikes import KINDS, Fault

HERE = Path(__file__).resolve().parent


def test_a_seed_draws_the_same_fault_again() -> None:
    assert [Fault.draw(s, 100) for s in range(50)] == [Fault.draw(s, 100) for s in range(50)]
    assert {Fault.draw(s, 100).kind for s in range(200)} == set(KINDS)


@pytest.mark.slow
def test_six_random_faults(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / "run_chaos.py"), "--jobs", "6", "--seed", "2026", "--keep", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, done.stdout + done.stderr

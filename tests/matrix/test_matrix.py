"""The quick half of the matrix: a few launch commands and loops through the whole product. `make matrix` runs all."""

from __future__ import annotations

from pathlib import Path

import pytest
from cases import CASES
from trial import Machine

from jobs import python

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def machine() -> Machine:
    return Machine(Path(python()).absolute())


@pytest.mark.parametrize("case", [c for c in CASES if c.quick], ids=lambda c: c.name.replace(" ", "_"))
def test_observed_as_bare(machine, case):
    verdict = machine.judge(case)
    if verdict.skipped:
        pytest.skip(verdict.skipped)
    assert not verdict.wrong, "\n".join(verdict.wrong)


def test_cases_have_names_of_their_own():
    assert len({c.name for c in CASES}) == len(CASES)

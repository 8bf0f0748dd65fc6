"""Fixtures of the hook tests; what they run is in hook_jobs.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hook_jobs import make_runner

from injected import Runner


@pytest.fixture(scope="session")
def run() -> Iterator[Runner]:
    runner = make_runner()
    yield runner
    runner.clean()

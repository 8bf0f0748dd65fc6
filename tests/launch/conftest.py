"""Fixtures of the launch tests; what they start is in launches.py."""

from __future__ import annotations

import signal

import pytest
from launches import Launch


@pytest.fixture(scope="session", autouse=True)
def hangup_is_heard():
    """Under nohup SIGHUP is ignored and so it stays in all children, as it should; the tests send it on purpose."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def launch(tmp_path):
    helper = Launch(tmp_path)
    yield helper
    helper.close()

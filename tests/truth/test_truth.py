"""Short shares of the truth drivers on real jobs; each driver says in its head what the whole of it proves."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import jobs

HERE = Path(__file__).resolve().parent
SHARES = {
    "a rank killed in backward": ["kill.py", "--only", "kill-backward"],
    "Ctrl-C": ["kill.py", "--only", "ctrl-c"],
    "scheduler's SIGTERM": ["kill.py", "--only", "sigterm"],
    "ledger, zero-code": ["ledger.py", "--mode", "zero", "--places", "backward,unattributed"],
    "ledger, trace_step": ["ledger.py", "--mode", "trace", "--places", "straggler_wait,checkpoint"],
    "waiting against transfer": ["stalls.py", "--modes", "eager", "--ranks", "2"],
    "waiting against transfer, stamped now and then": ["stalls.py", "--modes", "eager", "--always", "0"],
    "a random straggler": ["draws.py", "--seeds", "3"],
    "a healthy job": ["draws.py", "--controls", "1"],
}


@pytest.mark.slow
@pytest.mark.parametrize("share", SHARES)
def test_share(share: str) -> None:
    script, *args = SHARES[share]
    jobs.run([sys.executable, HERE / script, *args], timeout_s=900).check()

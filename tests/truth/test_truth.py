"""Short shares of the truth drivers on real jobs; each driver says in its head what the whole of it proves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
SHARES = {
    "a rank killed in backward": ["kill.py", "--only", "kill-backward"],
    "Ctrl-C": ["kill.py", "--only", "ctrl-c"],
    "scheduler's SIGTERM": ["kill.py", "--only", "sigterm"],
    "ledger, zero-code": ["ledger.py", "--mode", "zero", "--places", "backward,unattributed"],
    "ledger, trace_step": ["ledger.py", "--mode", "trace", "--places", "straggler_wait,checkpoint"],
    "waiting against transfer": ["stalls.py", "--modes", "eager", "--ranks", "2"],
    "a random straggler": ["draws.py", "--seeds", "3"],
    "a healthy job": ["draws.py", "--controls", "1"],
}


# Steps with completion stamps: waits of an eager all_reduce come out as unresolved, 15 to 30 % of the sums.
WRONG_TODAY = {"waiting against transfer"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "share",
    [
        pytest.param(s, marks=pytest.mark.xfail(reason="stamped steps stay unresolved") if s in WRONG_TODAY else ())
        for s in SHARES
    ],
)
def test_share(share: str) -> None:
    script, *args = SHARES[share]
    done = subprocess.run([sys.executable, str(HERE / script), *args], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr

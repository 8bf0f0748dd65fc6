"""A run that loads torch past our hooks says so, with the reason; a run without torch is only NO_DATA."""

from __future__ import annotations

import sys

import pytest
from launches import findings

pytest.importorskip("torch")
TRAIN = f"""
import sys, time
sys.path.extend({[p for p in sys.path if p.endswith("site-packages")]!r})
import torch
m = torch.nn.Linear(2, 2); o = torch.optim.SGD(m.parameters(), lr=0.1)
for _ in range(20):
    m(torch.ones(1, 2)).sum().backward(); o.step(); time.sleep(0.1)
"""
WAYS = {
    "no site-packages": ([sys.executable, "-S", "train.py"], "-S"),
    "disabled for this process": (["env", "STEPSCOPE_DISABLE=1", sys.executable, "train.py"], "STEPSCOPE_DISABLE"),
}


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_torch_without_hooks_is_said(launch, way):
    command, reason = WAYS[way]
    (launch.folder / "train.py").write_text(TRAIN)
    done = launch.run("run", "--run-name", "r", "--", *command)
    assert done.returncode == 0, done.stderr
    summary = launch.summary()
    assert not findings(summary, "NO_DATA")
    (found,) = findings(summary, "OBSERVER_DEGRADED")
    assert (found["cause"], found["severity"]) == ("hooks_not_installed", "warn")
    told = {e["name"]: e.get("text") for e in found["evidence"]}
    assert reason in told["reason"] and "train.py" in told["process"]


def test_a_run_without_torch_has_no_data(launch):
    done = launch.run("run", "--run-name", "r", "--", sys.executable, "-c", "import time; time.sleep(1.5)")
    assert done.returncode == 0, done.stderr
    summary = launch.summary()
    assert findings(summary, "NO_DATA") and not findings(summary, "OBSERVER_DEGRADED")

"""The agent asks the ranks of a real job for completion stamps, in some steps; the bandwidth of the collectives comes of them."""

from __future__ import annotations

import pytest

import ring
from jobs import ROOT, torchrun

DEMO = str(ROOT / "examples" / "demo_straggler.py")


@pytest.mark.slow
def test_some_steps_are_stamped_and_give_a_bandwidth(launch):
    result = launch.run(
        "run",
        "--keep-rings",
        "--run-name",
        "r",
        "--",
        *torchrun(2, DEMO, "--steps", "60", "--fix"),
        timeout=240,
    )
    assert result.returncode == 0, result.stderr.decode()
    table = launch.summary()["collectives"]
    assert any(line["bus_gb_per_s"] and line["bus_gb_per_s"] > 0 for line in table), table
    boxes = ring.read_all(launch.run_dir() / "blackbox")
    assert len(boxes) == 2
    for box in boxes:
        issued = {(r.a, r.b) for r in box.records if r.what == "Collective"}
        done = {(r.a, r.b) for r in box.records if r.what == "CollectiveDone"}
        assert done and done <= issued and len(done) < len(issued), (len(done), len(issued))

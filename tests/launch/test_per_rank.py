"""`stepscope run` before each rank, as `srun stepscope run python train.py` and mpirun do: an agent per rank, one verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs import ROOT, Job, environment, free_port, observed, python, summary

JOB = ROOT / "tests" / "truth" / "job.py"


def start_ranks(logs: Path, *words: str) -> list[Job]:
    """Two ranks, each started by itself; both name their run alike and so get two folders."""
    started = []
    port = free_port()
    for rank in range(2):
        place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
        env = environment(**place, MASTER_PORT=port, OMP_NUM_THREADS="1")
        started.append(Job(observed(logs, "alike", "--", python(), JOB, *words), env))
    return started


@pytest.mark.slow
def test_agents_of_one_host_give_one_verdict(tmp_path: Path) -> None:
    outcomes = [
        job.finish(120).check() for job in start_ranks(tmp_path, "--steps", "120", "--fault", "1:backward:40:sleep")
    ]
    whole, part = outcomes
    runs = {s["run"]["ranks_seen"]: s for s in map(summary, tmp_path.iterdir()) if s}
    assert set(runs) == {1, 2}
    named = [(f["kind"], f["ranks"], f["phase"]) for f in runs[2]["findings"] if f["severity"] != "info" and f["ranks"]]
    assert named == [("COMPUTE_STRAGGLER", [1], "backward")], whole.stderr
    assert "COMPUTE STRAGGLER" in whole.stderr
    # half of the job beside the whole of it would be read as a second verdict
    assert "Verdict of the whole job: " in part.stderr and "STRAGGLER" not in part.stderr, part.stderr
    # what the other agent's rank uses of the host is not called another program's
    causes = {f["cause"] for s in runs.values() for f in s["findings"] if f["kind"] in ("HIGH_CPU", "CPU_CONTENTION")}
    assert "other_processes" not in causes

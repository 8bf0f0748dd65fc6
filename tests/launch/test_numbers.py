"""Numbers that go wrong on real trainings: who was first, from which step on; and trainings that only look like it."""

from __future__ import annotations

import sys

import pytest
from launches import HERE, Launch, findings

from package import package_folder

JOB = str(HERE / "numbers_job.py")
WAYS = ("log0", "overflow", "explode", "scheduler", "diverge")
KINDS = ("NON_FINITE", "LOSS_SPIKE", "GRAD_NORM_SPIKE", "RANK_DIVERGENCE", "SCHEDULER_AHEAD")


def train(launch: Launch, way: str, fault: str, ranks: int = 2) -> dict:
    env = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "STEPSCOPE_PYTHON_DIR": str(package_folder())}
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        f"--nproc-per-node={ranks}",
        JOB,
        way,
        fault,
    ]
    done = launch.run("run", "--run-name", way, "--", *command, timeout=240, env=env, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return launch.summary(way)


def said(summary: dict) -> set[str]:
    return {f["kind"] for f in summary["findings"] if f["kind"] in KINDS}


@pytest.mark.slow
def test_one_rank_takes_the_logarithm_of_zero(launch: Launch) -> None:
    summary = train(launch, "log0", "on")
    (finding,) = findings(summary, "NON_FINITE")
    assert finding["ranks"] == [1] and finding["severity"] == "crit" and finding["steps"]["first"] == 130
    assert summary["primary"]["kind"] == "NON_FINITE" and summary["steps"]["count"] == 200
    assert said(summary) == {"NON_FINITE"}


@pytest.mark.slow
@pytest.mark.long
def test_two_ranks_overflow(launch: Launch) -> None:
    summary = train(launch, "overflow", "on", ranks=3)
    (finding,) = findings(summary, "NON_FINITE")
    assert finding["cause"] == "overflow" and finding["ranks"] == [0, 1] and finding["severity"] == "crit"
    assert finding["steps"]["first"] == 60 and said(summary) == {"NON_FINITE"}


@pytest.mark.slow
def test_a_learning_rate_too_high(launch: Launch) -> None:
    summary = train(launch, "explode", "on")
    (finding,) = findings(summary, "NON_FINITE")
    assert finding["scope"] == "job" and finding["severity"] == "crit" and 150 < finding["steps"]["first"] < 185
    for kind in ("LOSS_SPIKE", "GRAD_NORM_SPIKE"):
        (spike,) = findings(summary, kind)
        assert spike["severity"] == "warn" and spike["scope"] == "job" and 128 <= spike["steps"]["first"] <= 136
    assert summary["primary"]["kind"] == "NON_FINITE"


@pytest.mark.slow
def test_a_scheduler_that_advances_with_each_micro_batch(launch: Launch) -> None:
    (finding,) = findings(train(launch, "scheduler", "on"), "SCHEDULER_AHEAD")
    assert finding["cause"] == "each_backward" and finding["severity"] == "warn"


@pytest.mark.slow
@pytest.mark.long
def test_a_rank_that_keeps_its_own_gradients(launch: Launch) -> None:
    summary = train(launch, "diverge", "on")
    (finding,) = findings(summary, "RANK_DIVERGENCE")
    assert finding["severity"] == "warn" and finding["steps"]["first"] == 60 and said(summary) == {"RANK_DIVERGENCE"}


@pytest.mark.slow
@pytest.mark.parametrize("way", ["sound", *(pytest.param(way, marks=pytest.mark.long) for way in WAYS)])
def test_sound_trainings(launch: Launch, way: str) -> None:
    assert said(train(launch, way, "off")) == set()

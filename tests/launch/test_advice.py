"""Advice on real trainings: what is wrong on purpose is named, what is right is not, and a silenced piece is not said."""

from __future__ import annotations

import os
import pathlib
import sys

import pytest
from launches import HERE, Launch, findings

from jobs import torchrun
from package import package_folder

JOB = str(HERE / "advice_job.py")
ALONE = str(HERE / "advice_alone_job.py")


def train(launch: Launch, how: str, **env: str) -> dict:
    env = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "STEPSCOPE_PYTHON_DIR": str(package_folder())} | env
    done = launch.run("run", "--run-name", how, "--", *torchrun(2, JOB, how), timeout=180, env=env, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return launch.summary(how)


def causes(summary: dict) -> set[str]:
    """Without what depends on the machine: whether it has cores that two threads leave idle."""
    return {f["cause"] for f in findings(summary, "ADVICE")} - {"few_threads"}


@pytest.mark.slow
def test_everything_wrong(launch: Launch) -> None:
    summary = train(launch, "wrong", STEPSCOPE_SILENCE="last_batch")
    expected = {"batchnorm", "unused_parameters", "distributed_sampler", "num_workers", "destroy_process_group"}
    assert causes(summary) == expected, summary["findings"]
    for finding in findings(summary, "ADVICE"):
        assert finding["severity"] == "info" and finding["section"] == "configuration" and finding["scope"] == "job"
        assert finding["evidence"] and finding["action"] and finding["doc"] == "findings/advice"
    assert summary["primary"]["kind"] != "ADVICE"
    # 33 steps of 4 rows, but the last of each epoch, which has two.
    rows = sum(r["samples_per_s"] * r["steps"] * summary["steps"]["wall_ms"]["mean"] / 1e3 for r in summary["per_rank"])
    assert rows == pytest.approx(2 * 3 * 42, rel=0.3)
    text = pathlib.Path(launch.run_dir("wrong") / "final_summary.txt").read_text()
    assert "ADVICE" in text and "samples/s" in text


@pytest.mark.slow
def test_everything_right(launch: Launch) -> None:
    assert causes(train(launch, "right")) <= {"num_workers"}  # which depends on what the machine does beside


@pytest.mark.slow
@pytest.mark.parametrize("how", ["late_head", "averaged_head"])
def test_parameters_outside_of_ddp(launch: Launch, how: str) -> None:
    """The head is replaced after the model was wrapped; the second job starts it alike and averages its gradients."""
    told = findings(train(launch, how), "RANK_DIVERGENCE")
    assert [(f["severity"], f["scope"]) for f in told] == ([("warn", "job")] if how == "late_head" else [])
    assert all("2.weight" in f["title"] for f in told)


@pytest.mark.slow
def test_epochs(launch: Launch) -> None:
    assert causes(train(launch, "epochs")) == {"set_epoch", "persistent_workers"}


@pytest.mark.slow
def test_one_unit_and_too_many_threads(launch: Launch) -> None:
    threads = str(len(os.sched_getaffinity(0)))  # as many for each of two ranks
    assert causes(train(launch, "fsdp", OMP_NUM_THREADS=threads)) == {"fsdp_root_unit", "threads"}


@pytest.mark.slow
def test_flops_that_the_user_tells(launch: Launch) -> None:
    summary = train(
        launch, "right", STEPSCOPE_FLOPS_PER_STEP="1e6", STEPSCOPE_PEAK_FLOPS="1e12", STEPSCOPE_SILENCE="all"
    )
    assert not findings(summary, "ADVICE")
    rates = summary["throughput"]
    assert rates["flops_per_s"] > 0 and rates["mfu"] == pytest.approx(
        rates["flops_per_s"] / 2e12, abs=1e-6
    )  # rounded in the summary
    assert summary["per_rank"][0]["mfu"] == pytest.approx(
        summary["per_rank"][0]["flops_per_s"] / 1e12, abs=1e-6
    )  # rounded in the summary


def alone(launch: Launch, how: str, **env: str) -> dict:
    """One process without a process group."""
    env = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "STEPSCOPE_PYTHON_DIR": str(package_folder())} | env
    done = launch.run("run", "--run-name", how, "--", sys.executable, ALONE, how, timeout=180, env=env, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return launch.summary(how)


def test_switches_that_were_left_on(launch: Launch) -> None:
    summary = alone(launch, "anomaly", TORCH_DISTRIBUTED_DEBUG="DETAIL")
    assert {"anomaly_mode", "distributed_debug"} <= causes(summary)
    assert not [f for f in summary["findings"] if f["title"].startswith("Healthy")], summary["findings"]


@pytest.mark.slow
def test_a_table_of_which_little_is_used(launch: Launch) -> None:
    summary = alone(launch, "table")
    (advice,) = [f for f in findings(summary, "ADVICE") if f["cause"] == "dense_embedding"]
    assert "200000 x 32" in advice["title"]
    figures = {e["name"]: e["value"] for e in advice["evidence"]}
    assert figures["rows_touched_share"] == pytest.approx(256 / 200_000, abs=0.002)
    assert "dense_embedding" not in causes(alone(launch, "sparse_table"))


@pytest.mark.slow
def test_batches_that_are_dropped_before_the_first_step(launch: Launch) -> None:
    summary = alone(launch, "skip")
    (start,) = findings(summary, "SLOW_START")
    assert start["cause"] == "batches_dropped" and start["ranks"] == [0]
    figures = {e["name"]: e["value"] for e in start["evidence"]}
    assert figures["dropped_batches"] == 300 and 1.0 < figures["dropped_s"] < 30
    assert summary["steps"]["count"] == 60
    waited_s = sum(f["cost"]["seconds"] for f in findings(summary, "INPUT_BOUND"))
    assert waited_s < 0.5 * figures["dropped_s"]  # of 60 batches, not of 360


@pytest.mark.slow
def test_the_order_of_samples_at_each_epoch(launch: Launch) -> None:
    summary = alone(launch, "permutation")
    (stall,) = findings(summary, "EPOCH_START_STALL")
    assert stall["cause"] == "sampler", stall
    assert not findings(summary, "INPUT_BOUND")


@pytest.mark.slow
def test_samples_that_are_too_small_to_be_handled_one_by_one(launch: Launch) -> None:
    summary = alone(launch, "small_samples")
    (bound,) = findings(summary, "INPUT_BOUND")
    assert bound["cause"] == "per_sample_overhead" and "num_workers" not in causes(summary)


@pytest.mark.slow
def test_gradients_that_are_sent_after_each_backward(launch: Launch) -> None:
    assert "no_sync" in causes(train(launch, "accumulates"))
    assert "no_sync" not in causes(train(launch, "no_sync"))

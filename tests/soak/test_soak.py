"""A share of the soak through the whole product, and the judge on samples made up here. `make soak` runs all of it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from soak_judge import Result, _memory

import jobs

SOAK = Path(__file__).with_name("soak.py")


@pytest.mark.slow
def test_a_share_of_the_soak(tmp_path):
    """Counts, names and the ring; memory needs more steps than these."""
    words = [SOAK, "--steps", "10000", "--sample-s", "0.5", "--folder", tmp_path / "soak"]
    done = jobs.run([jobs.python(), *words], timeout_s=600)
    assert done.rc == 0, done.stdout + done.stderr
    summary = jobs.summary(tmp_path / "soak/logs/soak")
    assert summary and summary["steps"]["count"] == 10_000


def judged(agent_kib, steps=2_000_000, many=400):
    """Verdict on an agent whose memory is ``agent_kib(step)``; all else is flat."""
    samples = []
    for i in range(many):
        at = steps * i // many
        ranks = {"0": {"rank_kib": 400_000, "steps": at, "ring_kib": 4164, "names_bytes": 900, "names_dropped": 0}}
        samples.append({"at_s": i, "ranks": ranks, "agent_kib": agent_kib(at)})
    result = Result()
    _memory(result, samples)
    return result


def test_memory_that_fills_up_and_stays_is_flat():
    noise = random.Random(1)
    assert not judged(lambda step: min(9000, 700 + step // 4) + noise.randrange(0, 300)).wrong


def test_steps_up_that_do_not_go_on_are_flat():
    assert not judged(lambda step: 8000 + 2048 * (step > 300_000)).wrong


@pytest.mark.parametrize("bytes_a_step", [2, 3, 10])
def test_a_leak_of_a_few_bytes_a_step_is_told(bytes_a_step):
    noise = random.Random(2)
    assert judged(lambda step: 8000 + step * bytes_a_step / 1024 + noise.randrange(0, 300)).wrong


def test_a_name_that_is_kept_each_epoch_is_told():
    samples = [
        {
            "at_s": i,
            "agent_kib": 9000,
            "ranks": {"0": {"rank_kib": 400_000, "steps": i * 5000, "ring_kib": 4164, "names_bytes": 900 + i}},
        }
        for i in range(100)
    ]
    result = Result()
    _memory(result, samples)
    assert [w for w in result.wrong if "names" in w]


def test_a_short_run_does_not_judge_memory():
    result = judged(lambda step: step, steps=20_000)
    assert not result.wrong and any(row[3] == "too short" for row in result.rows)

"""The judge of the hang bench: what it must not let pass."""

from __future__ import annotations

import pytest
from hang_bench import TRUTHS, Case, cases, judged


def hang(rank: int, cause: str, place: str = "", kind: str = "HANG") -> dict:
    where = [{"name": "where", "rank": rank, "text": place}] if place else []
    title = f"Rank {rank} stands"
    return {
        "findings": [
            {"kind": kind, "severity": "crit", "ranks": [rank], "cause": cause, "title": title, "evidence": where}
        ]
    }


def test_each_fault_runs_with_three_seeds_on_two_ranks_and_one_on_four():
    keys = [c.key for c in cases()]
    assert len(set(keys)) == len(keys) == 4 * len(TRUTHS) + 20
    assert {c.who for c in cases() if c.ranks == 4} > {0} and all(c.who < c.ranks for c in cases())


def test_right_is_kind_rank_cause_and_place():
    case = Case("sleeps", 4, 0)
    who = case.who
    assert judged(case, hang(who, "rank_silent", "job.py:27 sleeps"), "")[1] == []
    for told in (
        hang(who, "rank_silent", "job.py:99 main"),
        hang(who, "transport", "job.py:27 sleeps"),
        hang((who + 1) % 4, "rank_silent", "job.py:27 sleeps"),
        hang(who, "rank_silent", "job.py:27 sleeps", kind="RANK_LOST"),
        {"findings": []},
        None,
    ):
        assert judged(case, told, "")[1], told


def test_nobody_else_may_be_accused_where_one_rank_is_to_blame():
    told = hang(Case("stops", 2, 0).who, "stopped")
    told["findings"][0]["ranks"] = [0, 1]
    assert judged(Case("stops", 2, 0), told, "")[1] == ["ranks [0, 1]"]
    told["findings"][0]["cause"] = "uneven_steps"
    assert not judged(Case("has_more_batches", 2, 0), told, "")[1], "there both sides may be named"


@pytest.mark.parametrize("stderr, told", [("stepscope: HANG  x", {"findings": []}), ("", hang(0, "rank_silent"))])
def test_a_healthy_job_must_hear_of_no_hang(stderr, told):
    case = Case("healthy", 2, 3)
    assert judged(case, told, stderr)[1]
    assert not judged(case, {"findings": []}, "")[1]


def test_a_wait_that_runs_towards_its_timeout_is_said_while_it_lasts():
    case = Case("saves_long", 2, 0)
    right = f"stepscope: TIMEOUT AHEAD  Rank {case.who} is busy in checkpoint at job.py:56 Slow.__reduce__"
    assert not judged(case, {"findings": []}, right)[1]
    assert judged(case, {"findings": []}, "")[1]
    assert judged(case, {"findings": []}, right.replace(f"Rank {case.who}", f"Rank {1 - case.who}"))[1]

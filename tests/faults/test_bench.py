"""How the fault bench counts, on made-up findings; the runs themselves are `make fault-bench`."""

from __future__ import annotations

from pathlib import Path

import bench_entries
import fault_bench
import pytest
from bench_entries import Entry
from bench_score import judge_run, total


def entry(*kinds: str, **more) -> Entry:
    return Entry("unseen", "t", Path("t.py"), 2, kinds, **more)


def finding(kind: str, severity: str = "warn", ranks=(), cause=None, by=None, detected=12) -> dict:
    return {
        "kind": kind,
        "severity": severity,
        "ranks": list(ranks),
        "cause": cause,
        "explained_by": by,
        "steps": {"first": 0, "detected": detected},
        "cost": {"share": 0.2},
        "saves": None,
    }


def test_a_right_finding_of_the_right_rank_is_found():
    j = judge_run(entry("HANG", ranks=(1,), first_step=5), True, [finding("HANG", "crit", [1])])
    assert j.found and not j.false and j.steps_until == 7
    for wrong in (finding("HANG", "info", [1]), finding("HANG", "crit", [0]), finding("COMM_BOUND", "crit", [1])):
        j = judge_run(entry("HANG", ranks=(1,)), True, [wrong])
        assert j.wanted and not j.found, wrong
    assert judge_run(entry("HANG", ranks=(1,)), True, [finding("HANG", "crit", [0])]).false


def test_what_stands_beside_a_right_finding_is_false_unless_allowed_or_explained():
    right, beside = finding("HANG", "crit", [1]), finding("GC_PAUSE")
    assert judge_run(entry("HANG"), True, [right, beside]).false == [beside]
    assert not judge_run(entry("HANG", also=("GC_PAUSE",)), True, [right, beside]).false
    assert not judge_run(entry("HANG"), True, [right, finding("GC_PAUSE", by="f1")]).false
    assert not judge_run(entry("HANG"), True, [right, finding("GC_PAUSE", "info")]).false


def test_a_control_and_a_healthy_job_must_be_silent():
    assert judge_run(entry("HANG"), False, [finding("HANG", "crit")]).false
    assert judge_run(entry(), True, [finding("HANG", "crit")]).false
    quiet = judge_run(entry(), True, [finding("COMPUTE_BOUND", "info")])
    assert not quiet.wanted and not quiet.false


def test_advice_is_asked_for_by_its_cause_at_any_severity():
    e = entry("ADVICE:few_threads")
    assert judge_run(e, True, [finding("ADVICE", "info", cause="few_threads")]).found
    assert not judge_run(e, True, [finding("ADVICE", "info", cause="threads")]).found


def test_healthy_beside_a_loss_is_false():
    healthy = finding("COMPUTE_BOUND", "info") | {"cost": {"share": 0.0}}
    assert judge_run(entry("INPUT_BOUND", lost_share=(0.3, 0.5)), True, [healthy]).false_healthy
    assert not judge_run(entry("INPUT_BOUND", lost_share=(0.05, 0.5)), True, [healthy]).false_healthy
    assert not judge_run(
        entry("INPUT_BOUND", lost_share=(0.3, 0.5)), True, [healthy, finding("WAIT_HEAVY")]
    ).false_healthy


def test_causes_are_right_unknown_or_wrong():
    e = entry("HANG", cause="transport")
    said = [judge_run(e, True, [finding("HANG", cause=c)]).cause for c in ("transport", None, "stopped")]
    assert said == ["right", "unknown", "wrong"]


def test_precision_recall_and_f1_by_hand():
    right, other = finding("HANG", "crit"), finding("GC_PAUSE")
    runs = [[right], [right, other], [other], []]
    score = total([judge_run(entry("HANG"), True, r) for r in runs] + [judge_run(entry(), True, [])])
    assert (score.right, score.missed, score.false, score.silent_right) == (2, 2, 2, 1)
    assert score.precision == score.recall == score.f1 == 0.5


def test_a_saving_is_held_by_its_range_or_within_a_fifth():
    on, off = {"mean_ms": 100.0}, {"mean_ms": 60.0}
    saves = {"share": 0.3, "low": 0.25, "high": 0.45}
    assert "not held" not in fault_bench.saving_words(entry("X"), on, off, {"saves": saves})
    saves = {"share": 0.2, "low": 0.1, "high": 0.25}
    assert "not held" in fault_bench.saving_words(entry("X"), on, off, {"saves": saves})
    assert fault_bench.saving_words(entry("X"), on, None, {"saves": saves}) == ""


@pytest.mark.parametrize("family", bench_entries.FAMILIES)
def test_every_job_is_there_and_asks_for_kinds_that_exist(family):
    known = set((bench_entries.HERE.parents[1] / "src/diagnose/kinds.def").read_text().split('"'))
    found = bench_entries.entries((family,))
    assert len(found) >= 10 and len({e.id for e in found}) == len(found)
    for e in found:
        assert e.script.is_file(), e
        for kind in (*e.kinds, *e.also):
            assert kind in known or (kind.startswith("ADVICE:") and kind.split(":")[1] in known), kind


def test_a_line_that_was_cut_off_is_run_again(tmp_path):
    path = tmp_path / "runs.jsonl"
    path.write_text('{"family": "lab", "id": "X0", "on": true, "repeat": 0}\n{"family": "lab", "id": "X1", "on"')
    assert list(fault_bench.known(path)) == [("lab", "X0", True, 0)]

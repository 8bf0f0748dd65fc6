"""FSDP2, tensor parallelism and a pipeline on gloo: groups, meshes, collectives, waits, completion stamps."""

from __future__ import annotations

import statistics

import pytest
from test_hooks_ddp import P2P, RECV, SEND, key, needs_group_hooks
from test_hooks_loops import sections

pytestmark = [pytest.mark.slow, needs_group_hooks]


@pytest.fixture(scope="module")
def hooked(run):
    return run("parallel.py", "fsdp", "tp", "pp", ranks=4, timeout=300).check()


@pytest.fixture(scope="module")
def parts(hooked):
    return [sections(box) for box in hooked.rings]


def group_of(box, text):
    return next(i for (kind, i), t in box.names.items() if kind == 4 and t == text)


def waits(records):
    begin, total = {}, {}
    for r in records:
        if r.what == "Wait>":
            begin[r.thread] = r.time
        elif r.what == "Wait<":
            total[r.a] = total.get(r.a, 0) + (r.time - begin.pop(r.thread)) / 1e6
    return total


def test_meshes_are_named(hooked):
    for rank, box in enumerate(hooked.rings):
        dims, shape, coordinate, ids = next(t for t in box.named(10) if t.startswith("dp,tp")).split("|")
        assert (dims, shape, coordinate) == ("dp,tp", "2,2", f"{rank // 2},{rank % 2}")
        dp, tp = (int(i) for i in ids.split(","))
        assert box.names[(4, dp)] == f"dp|{rank % 2},{rank % 2 + 2}"
        assert box.names[(4, tp)] == f"tp|{rank // 2 * 2},{rank // 2 * 2 + 1}"


@pytest.mark.parametrize("part, pairs", [("fsdp", [(0, 2), (1, 3)]), ("tp", [(0, 1), (2, 3)])])
def test_members_agree_on_every_collective(parts, part, pairs):
    for a, b in pairs:
        first, second = ([key(r) for r in parts[i][part] if r.what == "Collective"] for i in (a, b))
        assert first and first == second


def waits_by_step(records):
    out, at = [], 0
    for i, r in enumerate(records):
        if r.what == "Optimizer<":
            out.append(sum(waits(records[at:i]).values()))
            at = i
    return out


def test_fsdp_waits_name_the_late_rank(parts):
    """Within each dp pair: rank 3 waits for rank 1 by what it sleeps, ranks 0 and 2 wait alike."""
    steps = [waits_by_step(p["fsdp"]) for p in parts]
    late = statistics.median(b - a for a, b in zip(steps[1], steps[3]))
    even = statistics.median(b - a for a, b in zip(steps[0], steps[2]))
    assert late > 20 and late - even > 20, (late, even)


def test_every_fsdp_collective_is_waited_for(parts):
    for part in parts:
        issued = {(r.a, r.b) for r in part["fsdp"] if r.what == "Collective"}
        waited = {(r.a, r.b) for r in part["fsdp"] if r.what == "Wait<"}
        assert waited == issued


def test_forward_of_the_root_holds_its_unshard(parts):
    records = parts[0]["fsdp"]
    begins = [i for i, r in enumerate(records) if r.what == "Forward>"]
    assert len(begins) == 8
    assert records[begins[0] + 1].what == "Collective"


def test_tensor_parallel_waits(parts):
    """Rank 0 waits for its late tp peer, rank 1, in every step."""
    steps = [waits_by_step(p["tp"]) for p in parts]
    assert statistics.median(a - b for a, b in zip(steps[0], steps[1])) > 12, steps[:2]


def test_pipeline_sends_and_receives(parts):
    for rank, part in enumerate(parts):
        records = [r for r in part["pp"] if r.what == "Collective" and r.flags & P2P]
        sent = {(r.d >> 16, r.b) for r in records if r.d & 0xFF == SEND}
        got = {(r.d >> 16, r.b) for r in records if r.d & 0xFF == RECV}
        peers = {p for p in (rank - 1, rank + 1) if 0 <= p < 4}
        assert {p for p, _ in sent} == peers == {p for p, _ in got}
        for p in peers:
            theirs = {r.b for r in parts[p]["pp"] if r.what == "Collective" and r.d == SEND | rank << 16}
            assert {n for q, n in got if q == p} == theirs


def test_completion_stamps_when_asked(run):
    done = run("parallel.py", "ddp_stamped", ranks=2, timeout=200).check()
    for box in done.rings:
        records = sections(box)["ddp_stamped"]
        ends = [r.index for r in records if r.what == "Optimizer<"]
        issued = {(r.a, r.b): r for r in records if r.what == "Collective"}
        stamped = [r for r in records if r.what == "CollectiveDone"]
        assert stamped and all((r.a, r.b) in issued for r in stamped)
        assert all(r.time >= issued[(r.a, r.b)].time for r in stamped)
        steps = sorted({sum(e < issued[(r.a, r.b)].index for e in ends) for r in stamped})
        assert steps == list(range(9, 14)), steps  # asked in step 8, seen at its end, over after six optimizer ends
        ops = {r.d & 0xFF for r in stamped}
        assert ops == {1, 3}  # all-reduce by its future, reduce-scatter by Work.wait

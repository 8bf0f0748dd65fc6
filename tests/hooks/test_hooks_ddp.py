"""Two real ranks on gloo: own backward work, collectives with equal numbers on both ranks, waits."""

from __future__ import annotations

import statistics

import pytest
from test_hooks_loops import sections

import ring

torch = pytest.importorskip("torch")
GROUP_HOOKS = hasattr(torch._C._distributed_c10d.ProcessGroup, "register_pre_hook")
needs_group_hooks = pytest.mark.skipif(not GROUP_HOOKS, reason="process-group hooks come with torch 2.14")
ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, BARRIER, SEND, RECV = 1, 2, 3, 4, 9, 10, 11
ASYNC, P2P = 1, 2


@pytest.fixture(scope="module")
def hooked(run):
    return run("ddp.py", ranks=2).check()


@pytest.fixture(scope="module")
def bare(run):
    return run("ddp.py", ranks=2, hooked=False).check()


@pytest.fixture(scope="module")
def parts(hooked):
    return [sections(box) for box in hooked.rings]


def key(r: ring.Record) -> tuple[int, ...]:
    return r.a, r.b, r.c, r.d, r.flags


def test_identity(hooked):
    assert [(b.rank, b.world_size, b.local_rank) for b in hooked.rings] == [(0, 2, 0), (1, 2, 1)]
    for box in hooked.rings:
        assert box.evidence & 2 and box.life & 1 and box.life & 2 and box.torn == 0
        assert box.count("InitGroup>") == box.count("InitGroup<") == 1
        assert box.count("Rendezvous") == 3  # one for each model that is wrapped
        assert box.count("Teardown>") == box.count("Teardown<") == 1


def test_training_is_bitwise_the_same(hooked, bare):
    assert hooked.said == bare.said


def test_the_size_of_what_the_model_is_given(parts):
    for part in parts:
        sizes = {name: {r.b for r in part[name] if r.what == "Forward>"} for name in ("straggler", "no_sync")}
        assert sizes == {"straggler": {32 * 256}, "no_sync": {4 * 8}}


def test_rule_counts_the_steps(parts):
    for part in parts:
        assert len(ring.steps(part["straggler"])) == 12
        assert len(ring.steps(part["no_sync"])) == 10


def test_own_backward_work_names_the_straggler(parts):
    """The whole backward takes as long on both ranks; only the part before the engine's callback tells them apart."""
    own, whole = [], []
    for part in parts:
        records = [r for r in part["straggler"] if r.what in ("Backward>", "BackwardOwn", "Backward<")]
        assert [r.what for r in records[:3]] == ["Backward>", "BackwardOwn", "Backward<"]
        triples = list(zip(records[0::3], records[1::3], records[2::3]))[2:]
        assert len(triples) == 10
        own.append(statistics.median((o.time - b.time) / 1e6 for b, o, _ in triples))
        whole.append(statistics.median((e.time - b.time) / 1e6 for b, _, e in triples))
    assert own[1] - own[0] > 25, own
    assert own[1] > 50 and abs(whole[1] - whole[0]) < 25, whole


@needs_group_hooks
def test_first_late_bucket_names_the_region(parts):
    """Backward begin to issue of bucket k: the buckets before the fault are on time on both ranks."""
    late = []
    for part in parts:
        begins = [r for r in part["straggler"] if r.what == "Backward>"][2:]
        table = []
        for begin, end in zip(begins, begins[1:]):
            issues = [r for r in part["straggler"] if r.what == "Collective" and begin.index < r.index < end.index]
            table.append([(r.time - begin.time) / 1e6 for r in issues])
        assert len({len(row) for row in table}) == 1 and len(table[0]) >= 4
        late.append([statistics.median(column) for column in zip(*table)])
    gaps = [b - a for a, b in zip(*late)]
    assert gaps[0] < 15 and gaps[-1] > 25, gaps


@needs_group_hooks
@pytest.mark.parametrize("part", ["straggler", "no_sync", "eager", "asynchronous", "sub_group"])
def test_collectives_are_the_same_on_both_ranks(parts, part):
    first, second = ([key(r) for r in p[part] if r.what == "Collective"] for p in parts)
    assert first and first == second


@needs_group_hooks
def test_one_bucket_per_step_under_no_sync(parts):
    for part in parts:
        # In its second step DDP agrees on its buckets anew, which takes collectives of its own.
        at = [r.index for r in part["no_sync"] if r.what == "Optimizer<"][1:]
        issues = [r.index for r in part["no_sync"] if r.what == "Collective" and r.index > at[0]]
        assert len(issues) == len(at) - 1 == 8
        assert all(sum(a < i < b for i in issues) == 1 for a, b in zip(at, at[1:]))


def _waits(records):
    begins = [r for r in records if r.what == "Wait>"]
    ends = [r for r in records if r.what == "Wait<"]
    return [(b, e) for b, e in zip(begins, ends, strict=True)]


@pytest.mark.parametrize("plain", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_waiting_for_buffers_is_waiting(run, plain):
    """C++ issues the broadcasts and waits for them: before 2.14 no hook tells of the first, and none of the second."""
    boxes = run("ddp.py", "buffers", *(["--plain"] if plain else []), ranks=2).check().rings
    told = []
    for box in boxes:
        records = sections(box)["buffers"]
        forwards = [r for r in records if r.what in ("Forward>", "Forward<")]
        assert [r.what for r in forwards] == ["Forward>", "Forward<"] * 10
        inside = []
        for begin, end in zip(forwards[0::2], forwards[1::2], strict=True):
            waits = [w for w in _waits(records) if begin.index < w[0].index and w[1].index < end.index]
            assert len(waits) == 1
            inside += waits
            at, done = waits[0]
            issues = [(r.a, r.b, r.d) for r in records if r.what == "Collective" and at.index < r.index < done.index]
            told_of = [] if plain or not GROUP_HOOKS else [(at.a, at.b + i, BROADCAST) for i in range(2)]  # a kind each
            assert issues == told_of
        told.append(inside)
    assert [(b.a, b.b, b.d) for b, _ in told[0]] == [(b.a, b.b, b.d) for b, _ in told[1]]
    assert len({b.b for b, _ in told[0]}) == 10
    waiting, late = (statistics.median((e.time - b.time) / 1e6 for b, e in waits) for waits in told)
    assert waiting > 40 > 20 > late, (waiting, late)


def test_a_barrier_is_known_without_group_hooks(run):
    """The wait in it; what is waited for elsewhere stays counted."""
    boxes = run("ddp.py", "barriers", "--plain", ranks=2).check().rings
    told = [[(w.a, w.b, w.d) for w, _ in _waits(sections(box)["barriers"])] for box in boxes]
    assert told[0] == told[1]
    barriers = [w for w in told[0] if w[2] == BARRIER]
    assert [b for _, b, _ in barriers] == [0, 1, 2, 3]
    assert [d for _, _, d in told[0]] == [BARRIER, 0] * 4


@needs_group_hooks
def test_operations_and_bytes(parts):
    records = [r for r in parts[0]["eager"] if r.what == "Collective"]
    assert [(r.d, r.c) for r in records[:6]] == [
        (ALL_REDUCE, 32),
        (BROADCAST, 32),
        (BARRIER, 0),
        (ALL_GATHER, 64),
        (ALL_GATHER, 64),
        (REDUCE_SCATTER, 32),
    ]
    assert all(b.b == a.b + 1 for a, b in zip(records, records[1:]))


@needs_group_hooks
def test_synchronous_calls_are_waited_for(parts):
    for part in parts:
        issued = [(r.a, r.b) for r in part["eager"] if r.what == "Collective"]
        waited = [(r.a, r.b) for r in part["eager"] if r.what == "Wait<"]
        assert waited == issued


def test_monitored_barrier_is_a_wait(parts):
    for part in parts:
        assert [(r.what, r.d) for r in part["monitored"] if r.kind == "Wait" and r.d == 12] == [
            ("Wait>", 12),
            ("Wait<", 12),
        ]


@needs_group_hooks
def test_waits_find_their_asynchronous_collective(parts):
    for part in parts:
        issued = [(r.a, r.b) for r in part["asynchronous"] if r.what == "Collective"]
        waited = [(r.a, r.b) for r in part["asynchronous"] if r.what == "Wait>"]
        assert len(issued) == len(waited) == 12
        for i in range(3, 12, 3):  # from the second round on
            assert waited[i : i + 3] == list(reversed(issued[i : i + 3]))


@needs_group_hooks
def test_groups_are_named(hooked, parts):
    for box, part in zip(hooked.rings, parts):
        assert "tp|0,1" in box.named(4)
        group = next(i for (kind, i), text in box.names.items() if kind == 4 and text == "tp|0,1")
        assert [r.b for r in part["sub_group"] if r.what == "Collective" and r.a == group] == [0, 1, 2]


@needs_group_hooks
def test_point_to_point_counts_per_peer_and_direction(parts):
    records = [[(r.d, r.b, r.c, r.flags & P2P) for r in p["point_to_point"] if r.what == "Collective"] for p in parts]
    assert records[0][:3] == [(SEND | 1 << 16, i, 64, P2P) for i in range(3)]
    assert records[1][:3] == [(RECV, i, 64, P2P) for i in range(3)]
    assert sorted(records[0][3:]) == [(SEND | 1 << 16, 3, 64, P2P), (RECV | 1 << 16, 0, 64, P2P)]
    assert sorted(records[1][3:]) == [(SEND, 0, 64, P2P), (RECV, 3, 64, P2P)]

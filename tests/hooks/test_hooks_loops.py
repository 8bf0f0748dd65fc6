"""Every shape of training loop gives the raw events from which the step rule counts right, and trains bitwise the same."""

from __future__ import annotations

import pytest

import ring


@pytest.fixture(scope="module")
def hooked(run):
    return run("loops.py").check()


@pytest.fixture(scope="module")
def bare(run):
    return run("loops.py", hooked=False).check()


def sections(box: ring.Ring) -> dict[str, list[ring.Record]]:
    """The records inside each named phase of the job."""
    out = {}
    for begin, end in box.spans("UserPhase"):
        name = box.names[(5, begin.a)]
        if name != "stepscope":
            out[name] = [r for r in box.records if begin.index < r.index < end.index]
    return out


# loop: optimizer ends, loader nexts, outermost backward ends
COUNTS = {
    "plain": (16, 17, 16),
    "accumulation": (6, 17, 16),
    "gan": (32, 17, 32),
    "critic_five_to_one": (19, 17, 35),
    "lbfgs": (8, 9, 32),
    "amp_skipped": (14, 17, 16),
    "optimizer_in_backward": (64, 17, 16),
    "two_optimizers_and_validation": (64, 44, 32),
    "sub_groups": (64, 17, 16),
    "rollouts": (16, 24, 32),
    "hand_written_sgd": (0, 17, 16),
    "checkpointed": (16, 17, 16),
    "functional": (16, 17, 0),
    "double_backward": (16, 17, 32),
    "scheduled": (16, 17, 16),
}


@pytest.mark.parametrize("loop", COUNTS)
def test_rule_counts_the_steps(hooked, loop):
    records = sections(hooked.rings[0])[loop]
    wanted = hooked.said[loop][0]
    assert len(ring.steps(records)) == wanted


@pytest.mark.parametrize("loop", COUNTS)
def test_every_event_is_there(hooked, loop):
    records = sections(hooked.rings[0])[loop]
    optimizers = sum(r.what == "Optimizer<" for r in records)
    fetches = sum(r.what == "Fetch<" for r in records)
    backwards = sum(r.what == "Backward<" for r in records)
    assert (optimizers, fetches) == COUNTS[loop][:2]
    if loop == "functional":  # torch.func reaches the engine without accumulating
        assert not any(r.what == "Backward<" and r.a for r in records)
    else:
        assert backwards == COUNTS[loop][2]


@pytest.mark.parametrize("loop", COUNTS)
def test_training_is_bitwise_the_same(hooked, bare, loop):
    assert hooked.said[loop] == bare.said[loop]


def test_ring_is_whole_and_says_who(hooked):
    (box,) = hooked.rings
    assert box.torn == 0
    assert (box.rank, box.world_size, box.local_rank) == (0, 1, 0)
    assert box.evidence & 4 and box.evidence & 8  # optimizer, backward
    assert box.life & 1 and box.life & 2  # teardown begun, closed in order
    assert any(t.startswith("torch=") for t in box.named(9))


def test_spans_are_paired(hooked):
    box = hooked.rings[0]
    for kind in ("Optimizer", "ScalerStep", "Backward", "Forward", "Fetch", "LoaderCreate", "UserPhase"):
        assert box.count(kind + ">") == box.count(kind + "<") == len(box.spans(kind)), kind


def test_roots_are_found_and_flags_tell_validation(hooked):
    box = hooked.rings[0]
    assert box.count("Forward>") > 0
    # The first loop's model is hooked after its first step; from the second step on each forward is seen.
    first = [r for r in sections(box)["plain"] if r.what == "Forward>"]
    assert len(first) == 15 and all(r.flags == 3 for r in first)


def test_skipped_steps_are_seen(hooked):
    records = sections(hooked.rings[0])["amp_skipped"]
    assert sum(r.what == "ScalerStep<" for r in records) == 16
    inside, skipped = False, 0
    for r in records:
        if r.what == "ScalerStep>":
            inside, stepped = True, False
        elif r.what == "Optimizer>" and inside:
            stepped = True
        elif r.what == "ScalerStep<":
            inside = False
            skipped += not stepped
    assert skipped == 2


def test_autograd_grad_is_told_from_backward(hooked):
    records = sections(hooked.rings[0])["critic_five_to_one"]
    assert sum(r.what == "Backward<" and r.a == 0 for r in records) == 16
    assert sum(r.what == "Backward<" and r.a == 1 for r in records) == 19


def test_recomputation_is_no_forward(hooked):
    box = hooked.rings[0]
    records = sections(box)["checkpointed"]
    begins = [r for r in records if r.what == "Backward>"]
    ends = [r for r in records if r.what == "Backward<"]
    for r in records:
        if r.kind == "Forward":
            assert not any(b.index < r.index < e.index for b, e in zip(begins, ends))


def test_usage_and_scheduler(hooked):
    box = hooked.rings[0]
    usage = box.of("Usage")
    assert usage and all(b.a >= a.a for a, b in zip(usage, usage[1:]))
    assert sum(r.what == "Scheduler" for r in sections(box)["scheduled"]) == 17  # the constructor advances once

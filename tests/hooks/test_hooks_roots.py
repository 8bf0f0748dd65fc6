"""Root modules: found by one look at the live objects, and one level further down where the root is never called."""

from __future__ import annotations

import pytest
from test_hooks_loops import sections

SHAPES = {  # name of the module whose forward is timed, forwards per step, steps after which it must be seen
    "never_called": ("Inner", 1, 3),
    "compiled_blocks": ("Outer", 1, 2),
    "recursive": ("Recursive", 1, 2),
    "in_threads": ("Inner", 2, 2),
}


@pytest.mark.parametrize(
    "shape", ["never_called", *[pytest.param(s, marks=pytest.mark.slow) for s in SHAPES if s != "never_called"]]
)
def test_root(run, shape):
    title, per_step, known_by = SHAPES[shape]
    (box,) = run("roots.py", shape).check().rings
    ends = [r.index for r in box.records if r.what == "Optimizer<"]
    assert len(ends) == 8
    late = [r for r in box.records if r.what == "Forward>" and r.index > ends[known_by - 1]]
    assert {box.names[(1, r.a)] for r in late} == {title}
    assert len(late) == per_step * (8 - known_by)
    assert box.count("Forward>") == box.count("Forward<")


@pytest.mark.parametrize("shape", ["teacher", pytest.param("teacher_of_ddp", marks=pytest.mark.slow)])
def test_models_beside_the_one_that_trains(run, shape):
    (box,) = run("roots.py", shape).check().rings
    ends = [r.index for r in box.records if r.what == "Optimizer<"]
    late = [r for r in box.records if r.what == "Forward>" and r.index > ends[2]]
    student = "DistributedDataParallel(Inner)" if shape == "teacher_of_ddp" else "Inner"
    # Each of them once in each of the last five steps. With a wrapper there, its inside is named as well, but never runs alone.
    assert sorted(box.names[(1, r.a)] for r in late) == sorted([student, "Teacher", "Copy"] * 5)
    assert box.count("Forward>") == box.count("Forward<")


ELEMENTS = {
    "tensor": 18,
    "pair": 20,
    "nested": 16,
    "ids": 384,
    "dict": 343,
    "tokens": 137,
    "scalar": 1,
    "seeds_and_neighbours": 932,
    "list_of_graphs": 27,
    "many": 46,
    "strange_and_more": 6,
}


def test_elements_of_a_models_inputs(run):
    (box,) = run("model_inputs.py").check().rings
    parts = sections(box)
    seen = {name: [r.b for r in records if r.what == "Forward>"] for name, records in parts.items()}
    assert len(seen) == 19
    assert seen == {name: [ELEMENTS.get(name, 0)] for name in seen}

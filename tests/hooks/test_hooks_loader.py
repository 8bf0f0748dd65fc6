"""DataLoader: fetches in worker processes reach the rank's own ring, whatever starts them; errors pass through."""

from __future__ import annotations

import pytest
from test_hooks_loops import sections


@pytest.fixture(
    scope="module",
    params=[("fork",), pytest.param(("fork", "spawn", "forkserver"), marks=pytest.mark.slow)],
    ids=["fork", "all"],
)
def methods(request):
    return request.param


@pytest.fixture(scope="module")
def hooked(run, methods):
    return run("workers.py", *methods).check()


def test_only_the_rank_has_a_ring(hooked):
    assert len(hooked.rings) == 1 and hooked.rings[0].evidence & 4


def test_every_worker_fetch_is_there(hooked, methods):
    parts = sections(hooked.rings[0])
    for method in methods:
        spans = [r for r in parts[method] if r.what == "WorkerFetch<"]
        loader = next(r.a for r in parts[method] if r.what == "LoaderCreate>")
        assert len(spans) == 8, method
        assert {r.a for r in spans} == {0, 1} and {r.b for r in spans} == {loader} and {r.c for r in spans} == {4}
        assert len({r.thread for r in spans}) == 2


def test_results_are_right(hooked, methods):
    for method in (*methods, "iterable"):
        assert hooked.said[method] == 8 * sum(range(32))
    assert hooked.said["persistent"] == [8 * sum(range(32))] * 2


def test_queue_is_described(hooked):
    parts = sections(hooked.rings[0])
    ends = [r for r in parts["fork"] if r.what == "Fetch<"]
    assert len(ends) == 9 and ends[-1].flags == 1  # StopIteration
    assert max(r.b for r in ends) >= 1  # batches in flight
    created = [r for r in parts["fork"] if r.what == "LoaderCreate<"]
    assert [(r.b, r.c) for r in created] == [(2, 4)]
    assert any(t.startswith("DataLoader(workers=2,batch=4,pin=0,persistent=0") for t in hooked.rings[0].named(3))


def test_ending_the_workers_is_seen_once(hooked, methods):
    parts = sections(hooked.rings[0])
    for method in methods:
        created = [r.a for r in parts[method] if r.what == "LoaderCreate>"]
        assert [r.a for r in parts[method] if r.what == "LoaderEnd>"] == created, method
        assert [r.a for r in parts[method] if r.what == "LoaderEnd<"] == created, method


def test_persistent_workers_are_one_loader(hooked):
    parts = sections(hooked.rings[0])
    created = [r for r in parts["persistent"] if r.what == "LoaderCreate<"]
    assert len(created) == 2 and len({r.a for r in created}) == 1
    assert sum(r.what == "WorkerFetch<" for r in parts["persistent"]) == 16


def test_a_broken_sample_passes_through(hooked):
    assert "broken sample" in hooked.said["broken"]
    ends = [r for r in sections(hooked.rings[0])["broken"] if r.what == "Fetch<"]
    assert ends[-1].flags == 2


# What a look at a batch tells: rows, and tokens where it has them. Absent = nothing, and nobody's code was run.
SHAPES = {
    "tensor": (6, 0),
    "pair": (5, 0),
    "nested": (4, 0),
    "ids": (3, 384),
    "dict": (7, 0),
    "tokens": (2, 128),
    "encoding": (2, 64),
}


def test_shapes_of_batches(run):
    outcome = run("shapes.py").check()
    assert all(outcome.said.values()) and len(outcome.said) == 13
    parts = sections(outcome.rings[0])
    for name in outcome.said:
        seen = [(r.a, r.b) for r in parts[name] if r.what.startswith("Shape")]
        assert seen == ([SHAPES[name]] if name in SHAPES else []), name

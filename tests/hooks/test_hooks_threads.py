"""Training in several threads: each thread has its own depth of backward and forward."""

from __future__ import annotations

from collections import Counter

from hook_jobs import JOBS

import jobs


def test_every_backward_of_every_thread_is_recorded(run):
    box = run("threads.py", "together").check().box
    for what in ("Backward>", "Backward<", "Optimizer>", "Optimizer<"):
        per_thread = Counter(r.thread for r in box.of(what))
        assert sorted(per_thread.values()) == [100] * 4, what
    for _, spans in _by_thread(box.spans("Backward")).items():
        assert all(a[1].time <= b[0].time for a, b in zip(spans, spans[1:]))


def test_recomputed_forwards_and_nested_backwards_do_not_count(run):
    box = run("threads.py", "checkpoint").check().box
    assert box.count("Backward>") == box.count("Backward<") == 40
    for begin, end in box.spans("Backward"):
        assert not [r for r in box.of("Forward>") if begin.time < r.time < end.time]


def _by_thread(spans):
    out: dict[int, list] = {}
    for begin, end in spans:
        out.setdefault(begin.thread, []).append((begin, end))
    return out


def _summary(tmp_path, how):
    """The summary of a whole run of threads.py."""
    env = jobs.environment(OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="", PYTHONPATH=f"{JOBS}")
    jobs.run(jobs.observed(tmp_path, how, JOBS / "threads.py", how), env, timeout_s=120, cwd=tmp_path).check()
    return jobs.summary(tmp_path / how)


def test_threads_that_train_one_after_the_other_are_all_in_the_steps(tmp_path):
    summary = _summary(tmp_path, "in_turn")
    assert summary["steps"]["count"] == 100
    assert not [u for u in summary["observer"]["unavailable"] if "other threads" in str(u)]


def test_threads_that_train_at_the_same_time_are_said(tmp_path):
    summary = _summary(tmp_path, "together")
    # Of 4 x 100 one thread's, and what others, which may lag by some, did after it had ended.
    assert 90 <= summary["steps"]["count"] <= 200
    assert [u for u in summary["observer"]["unavailable"] if "steps of other threads" in str(u)], summary["observer"]

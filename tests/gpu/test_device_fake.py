"""The Python side of the device signals, on a fake driver: phases, memory, copies, syncs, out of memory, NCCL."""

from __future__ import annotations

import pytest

FORWARD, BACKWARD, OPTIMIZER, H2D = 8, 6, 4, 17
BEGIN, END = 1, 2
CAPTURED, HOST_BOUND = 1, 2
MB = 1 << 20


def marks(box, kind, edge):
    return [r for r in box.of("GpuMark") if r.a == kind | edge << 8]


@pytest.fixture(scope="module")
def phases(run):
    return run("phases.py").check()


def test_phases_have_device_times(phases):
    box = phases.box
    assert phases.said["state"]["state"] == "running"
    begins = [r for r in marks(box, BACKWARD, BEGIN) if not r.flags & CAPTURED]
    ends = [r for r in marks(box, BACKWARD, END) if not r.flags & CAPTURED]
    assert len(begins) == len(ends) >= 18
    for begin, end in zip(begins, ends):
        assert begin.b == end.b == 1
        assert (
            7.99 <= ((end.d - begin.d) % 2**64) / 1e6 < 12.0
        )  # signed clocks; the work, and what the host needed before it
    assert len(marks(box, FORWARD, BEGIN)) >= 15  # the root is found after the first step
    assert len(marks(box, OPTIMIZER, END)) == 20


def test_marks_carry_the_time_of_their_host_mark(phases):
    box = phases.box
    hosts = {r.time for r in box.of("Backward>")}
    assert {r.time for r in marks(box, BACKWARD, BEGIN)} <= hosts


def test_a_captured_step_is_marked_and_not_recorded(phases):
    captured = [r for r in phases.box.of("GpuMark") if r.flags & CAPTURED]
    assert {r.a & 0xFF for r in captured} >= {FORWARD, BACKWARD, OPTIMIZER}
    assert all(r.c == 0 and r.d == 0 for r in captured)
    assert phases.said["state"]["captured"] == len(captured)
    assert phases.said["state"]["errors"] == 0


def test_memory_is_read_at_marks_and_not_too_often(phases):
    box = phases.box
    memory = box.of("Memory")
    assert 16 <= len(memory) <= 40
    assert phases.said["memory_calls"] == len(memory)
    assert all(b.time - a.time >= 10_000_000 for a, b in zip(memory, memory[1:]))
    for boundary in (BACKWARD | BEGIN << 8, OPTIMIZER | END << 8):  # in turns, although they lie closer than 10 ms
        assert sum(r.flags == boundary for r in memory) >= 5
    assert all(r.flags in (BACKWARD | BEGIN << 8, OPTIMIZER | END << 8) for r in memory)
    ends = [r.time for r in box.of("Optimizer<")]
    for r in memory:  # 1 MiB more per step, taken before the optimizer
        assert r.a == (100 + sum(end <= r.time for end in ends)) * MB
    assert (memory[0].b, memory[0].c, memory[0].d) == (200 * MB, 110 * MB, 5 * MB)
    assert [(r.a, r.b) for r in box.of("MemoryPeak")] == [(150 * MB, 200 * MB)]  # written when it changes
    assert [(r.a, r.b, r.c, r.d) for r in box.of("MemoryCounters")] == [(0, 0, 7, 3)]


def test_the_last_marks_are_there_and_the_poller_tells_its_state(phases):
    box = phases.box
    assert len(marks(box, OPTIMIZER, END)) == box.count("Optimizer<")
    status = box.of("GpuStatus")
    assert status[-1].b == 0 and status[-1].c == 0
    assert status[-1].a == len([r for r in box.of("GpuMark") if not r.flags & CAPTURED])
    assert "device=cuda:0 Fake GPU" in box.named(9)
    assert "device_uuid=GPU-0123" in box.named(9)


@pytest.fixture(scope="module")
def copies(run):
    return run("copies.py").check()


def test_copies_to_the_device(copies):
    spans = [(b, e) for b, e in copies.box.spans("H2d") if b.a]
    assert [b.a for b, _ in spans] == [4 * MB, 16, 16]  # the last one failed in torch and is closed all the same
    assert all(e.time >= b.time for b, e in spans)
    device = [r.b for r in copies.box.of("GpuMark") if r.a & 0xFF == H2D]
    assert device == [4 * MB, 4 * MB]  # small copies carry no device marks
    assert copies.said["error"] in ("RuntimeError", "AssertionError")


def test_syncs_name_their_line(copies):
    spans = copies.box.spans("Sync")
    assert len(spans) >= 2
    line = copies.said["line"]
    named = [copies.box.names[(11, b.a)] for b, _ in spans]
    assert named[0] == f"copies.py:{line}"
    assert named[-1] != named[0]
    assert all(e.time - b.time >= 20_000 for b, e in spans)
    assert sum(e.b for _, e in spans) >= 1  # the short ones in between were counted


def test_classes_of_the_user_are_left_alone(copies):
    assert copies.said["custom_calls"].count("to") == 1 and copies.said["custom_calls"].count("item") == 1
    assert not [c for c in copies.said["custom_calls"] if c in ("__get__", "is_cpu", "is_cuda", "nbytes")]
    assert copies.said["doc"]


def test_out_of_memory_is_told_once(copies):
    (oom,) = copies.box.of("OutOfMemory")
    assert (oom.a, oom.b, oom.c, oom.d) == (512 * MB, 100 * MB, 200 * MB, 80 << 30)
    (detail,) = copies.box.of("OutOfMemoryDetail")
    assert (detail.a, detail.b, detail.c) == (8 * MB, 3 * MB, 5 * MB)


@pytest.mark.parametrize("api", [3, 4, 5, 6])
def test_nccl_loads_the_extension_as_its_plugin(run, api):
    outcome = run("collectives.py", str(api)).check()
    said, box = outcome.said, outcome.box
    assert said["plugin"] == said["ours"] and said["chain"] is None
    assert said["failures"] == 0
    operations = box.of("NcclOp")
    assert [r.b for r in operations] == [0, 1, 2, 3, 4, 0] * 2
    assert {r.a for r in operations} == {0xABC, 0xABD}
    assert operations[0].c == 4000 and operations[0].d == 1
    assert operations[5].d == 10 | 1 << 16
    times = box.of("NcclTime")
    assert len(times) == (12 if api >= 5 else 0)
    assert all(r.c <= r.d for r in times)
    facts = box.named(9)
    assert f"nccl_profiler_api={api}" in facts
    assert any(f.startswith("nccl_mode=events" if api >= 5 else "nccl_mode=host") for f in facts)
    if api >= 4:
        assert any(f.endswith("|dp:mesh") for f in facts)


def test_a_plugin_of_the_user_is_chained(run, fakes):
    other = str(fakes / "libfake_other_plugin.so")
    said = run("collectives.py", "5", env={"NCCL_PROFILER_PLUGIN": other}).check().said
    assert said["plugin"] == said["ours"]
    assert said["chain"] == other


@pytest.mark.parametrize("plugin", ["none", "STATIC_PLUGIN", "/nowhere/libnccl-profiler.so"])
def test_a_plugin_that_cannot_be_chained_keeps_its_place(run, plugin):
    outcome = run("collectives.py", "5", env={"NCCL_PROFILER_PLUGIN": plugin}).check()
    assert outcome.said["plugin"] == plugin
    assert any("NCCL_PROFILER_PLUGIN" in text for text in outcome.box.named(8))


def test_switches(run):
    outcome = run("phases.py", env={"STEPSCOPE_GPU": "0"}).check()
    assert not outcome.box.of("GpuMark", "Memory")
    assert any("STEPSCOPE_GPU" in text for text in outcome.box.named(8))
    assert run("collectives.py", "5", env={"STEPSCOPE_NCCL": "off"}).said["plugin"] == ""


@pytest.mark.slow
def test_compiled_code_does_not_notice(run):
    bare, wrapped = run("compiled.py", "bare").check().said, run("compiled.py", "wrapped").check().said
    assert bare["moves"] == [1, 0]
    assert wrapped == bare

"""Collections, saves and compilations: outermost only, with their bytes, also when they fail, also after a dynamo reset."""

from __future__ import annotations

import pytest
from test_hooks_loops import sections


@pytest.fixture(scope="module")
def hooked(run):
    return run("pauses.py").check()


@pytest.fixture(scope="module")
def parts(hooked):
    return sections(hooked.rings[0])


def of(records, kind):
    return [r for r in records if r.kind == kind]


def test_full_collections(parts):
    spans = of(parts["gc"], "Gc")
    assert spans and spans[-1].what == "Gc<" and spans[-1].a == 2
    assert [r.what for r in spans] == ["Gc>", "Gc<"] * (len(spans) // 2)
    assert spans[-1].time - spans[-2].time > 100_000


def test_saves(hooked, parts):
    saves = {name: of(parts[name], "Save") for name in ("torch_save", "to_buffer", "distributed", "failing")}
    for name, records in saves.items():
        assert [r.what for r in records] == ["Save>", "Save<"], name
    assert [saves[n][1].a for n in saves] == [1, 1, 2, 1]
    assert [saves[n][1].b for n in saves] == [hooked.said["bytes"], 0, 0, 0]
    assert hooked.said["same"] and hooked.said["failing"] == "raised"
    if hooked.said.get("safetensors"):
        records = of(parts["safetensors"], "Save")
        assert [r.what for r in records] == ["Save>", "Save<"] and records[1].a == 3 and records[1].b > 0


@pytest.mark.parametrize("part", ["compile", "recompile", "after_reset"])
def test_compilations(parts, part):
    records = of(parts[part], "Compile")
    assert records and records[0].what == "Compile>"
    assert sum(r.what == "Compile>" for r in records) == sum(r.what == "Compile<" for r in records)


def test_frames_are_told_apart(parts):
    frames = {r.b for part in ("compile", "recompile") for r in of(parts[part], "Compile")}
    assert len(frames) >= 2

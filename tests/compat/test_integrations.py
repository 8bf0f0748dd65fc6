"""Callbacks of frameworks add names to steps that are seen anyway: how often, under which name, with which values."""

from __future__ import annotations

import importlib.util
import json
import math
import struct
from pathlib import Path

import pytest
from compat_runs import SCRIPTS, Run, stepscope

slow = pytest.mark.slow


def run(tmp_path: Path, script: str, *args: str) -> Run:
    return Run.of(tmp_path, SCRIPTS / script, *args, options=["--keep-rings"], compat="none").check()


def needs(*packages: str) -> None:
    for package in packages:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")


def values(done: Run) -> dict[str, list[float]]:
    """What was logged, by name, in order."""
    ring = next((done.folder / "blackbox").glob("*.ring"))
    rows = [json.loads(line) for line in stepscope(done.folder, "inspect", str(ring)).stdout.splitlines()]
    names = {row["id"]: row["text"] for row in rows if row.get("name") == "value"}
    found: dict[str, list[float]] = {}
    for row in rows:
        if row.get("kind") == "Value":
            found.setdefault(names[row["a"]], []).append(struct.unpack("<d", struct.pack("<Q", row["b"]))[0])
    return found


def phases(done: Run) -> list[str]:
    """Named phases, in order of their begin, each closed before the next."""
    ring = next((done.folder / "blackbox").glob("*.ring"))
    rows = [json.loads(line) for line in stepscope(done.folder, "inspect", str(ring)).stdout.splitlines()]
    names = {row["id"]: row["text"] for row in rows if row.get("name") == "phase"}
    spans = [
        (names[row["a"]], row["edge"])
        for row in rows
        if row.get("kind") == "UserPhase" and names[row["a"]] != "stepscope"
    ]
    assert [edge for _, edge in spans] == ["begin", "end"] * (len(spans) // 2)
    return [name for name, edge in spans if edge == "begin"]


@slow
def test_hugging_face(tmp_path: Path) -> None:
    needs("transformers", "accelerate")
    done = run(tmp_path, "own_hf.py", str(tmp_path / "out"))
    assert done.steps == 20
    logged = values(done)
    assert logged["global_step"] == [float(n) for n in range(1, 21)]
    assert logged["epoch"][-1] == pytest.approx(20 / 16)
    assert len(logged["loss"]) == 4 and all(math.isfinite(x) for x in logged["loss"])
    assert logged["lr"][0] > logged["lr"][-1] > 0
    assert phases(done) == ["validation", "checkpoint", "validation", "checkpoint", "validation"]


@slow
def test_lightning(tmp_path: Path) -> None:
    needs("lightning")
    done = run(tmp_path, "own_lightning.py")
    assert done.steps == 20
    logged = values(done)
    assert logged["global_step"] == [float(n) for n in range(1, 21)]
    assert logged["epoch"] == [0.0] * 10 + [1.0] * 10
    assert len(logged["loss"]) == 40 and logged["lr"] == pytest.approx([0.1] * 20)
    # The sanity check comes before anything has shown that this process trains, so it may not be in the ring.
    assert phases(done) in (["validation"] * 2, ["validation"] * 3)


@slow
def test_accelerate(tmp_path: Path) -> None:
    needs("accelerate")
    done = run(tmp_path, "own_accelerate.py")
    assert done.steps == 20
    logged = values(done)
    assert logged["global_step"] == [float(n) for n in range(20)]
    assert len(logged["loss"]) == 20 and logged["epoch"] == [0.5] * 20
    assert "note" not in logged


def test_what_is_no_number_is_not_logged() -> None:
    from stepscope.integrations._values import OpenPhase, number

    class OnDevice:
        device = type("D", (), {"type": "cuda"})()

        def __float__(self) -> float:
            raise AssertionError("reading this would wait for the device")

    assert [number(x) for x in (1, 2.5, "3", None, True, [1], OnDevice())] == [1.0, 2.5, None, None, None, None, None]
    phase = OpenPhase()
    phase.end()
    phase.begin("validation")
    phase.end("checkpoint")
    assert phase.name == "validation"
    phase.begin("checkpoint")
    phase.end("checkpoint")
    assert phase.name == ""

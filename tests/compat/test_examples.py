"""The small scripts of examples/: ordinary programs, and the verdict that each is there to show."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest
from compat_runs import Run

from jobs import ROOT

EXAMPLES = ROOT / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))


def run(tmp_path: Path, name: str, *args: str, options: tuple[str, ...] = ()) -> Run:
    return Run.of(tmp_path, EXAMPLES / name, *args, options=options, compat="none").check()


def assert_trained(done: Run) -> None:
    """All 40 steps, as the script counts them, with their phases."""
    assert "steps 40" in done.stdout and done.steps == 40
    assert {"forward", "backward", "optimizer"} <= done.phases


def needs(*packages: str) -> None:
    for package in packages:
        if importlib.util.find_spec(package.partition(".")[0]) is None or importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: p.name)
def test_examples_do_not_know_stepscope(script: Path) -> None:
    code = script.read_text()
    compile(code, str(script), "exec")
    assert "import stepscope" not in code and "from stepscope" not in code


@pytest.mark.slow
@pytest.mark.skipif(os.environ.get("STEPSCOPE_LONG_TESTS") != "1", reason="takes two minutes: STEPSCOPE_LONG_TESTS=1")
def test_memory_creep(tmp_path: Path) -> None:
    done = run(tmp_path, "memory_creep.py")
    assert [f["ranks"] for f in done.summary["findings"] if f["kind"] == "HOST_MEMORY_CREEP"] == [[0]]


@pytest.mark.slow
def test_hugging_face_trainer(tmp_path: Path) -> None:
    needs("transformers", "accelerate")
    done = run(tmp_path, "hf_trainer.py")
    assert "steps 40" in done.stdout and done.steps == 40
    job = done.summary["ledger"]["job"]
    assert job["validation"]["ms"] > 0 and job["checkpoint"]["ms"] > 0


@pytest.mark.slow
def test_lightning(tmp_path: Path) -> None:
    if not any(importlib.util.find_spec(p) for p in ("lightning", "pytorch_lightning")):
        pytest.skip("neither lightning nor pytorch_lightning is installed")
    assert_trained(run(tmp_path, "lightning_fit.py"))


@pytest.mark.slow
def test_accelerate(tmp_path: Path) -> None:
    needs("accelerate")
    assert_trained(run(tmp_path, "accelerate_loop.py"))


@pytest.mark.slow
def test_monai(tmp_path: Path) -> None:
    needs("monai")
    done = run(tmp_path, "monai_fit.py")
    assert_trained(done)
    assert done.summary["ledger"]["job"]["validation"]["ms"] > 0
    assert [e["steps"]["count"] for e in done.summary["epochs"]["kept"]] == [10, 10, 10, 10]


@pytest.mark.slow
def test_ray_train(tmp_path: Path) -> None:
    needs("ray.train")
    done = run(tmp_path, "ray_train.py")
    assert "steps 40" in done.stdout + done.stderr and done.steps == 40
    assert len(done.summary["per_rank"]) == 2


@pytest.mark.slow
def test_deepspeed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs("deepspeed")
    monkeypatch.setenv("DS_ACCELERATOR", "cpu")
    done = run(tmp_path, "deepspeed_zero.py", "--nproc-per-node", "2")
    assert "steps 40" in done.stdout and done.steps == 40
    assert len(done.summary["per_rank"]) == 2

"""What tools/demo_saving.py says of a predicted range and the saving that came of it."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "demo_saving.py"


@pytest.fixture(scope="module")
def demo() -> ModuleType:
    spec = importlib.util.spec_from_file_location("demo_saving", SCRIPT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("low", "high", "text"), [(0.3, 0.37, "30 to 37 %"), (0.36, 0.38, "37 %"), (0.0, 0.4, "0 to 40 %")]
)
def test_a_narrow_range_is_one_number(demo: ModuleType, low: float, high: float, text: str) -> None:
    assert demo.range_text(low, high) == text


@pytest.mark.parametrize(
    ("realised", "words"),
    [
        (0.3, "within"),
        (0.35, "within"),
        (0.2951, "within"),  # "30 to 37 %" is what a reader sees
        (0.294, "0.6 points less"),
        (0.3749, "within"),
        (0.25, "5.0 points less"),
        (0.4, "3.0 points more"),
        (-0.04, "measure again"),
    ],
)
def test_it_says_whether_the_prediction_held(demo: ModuleType, realised: float, words: str) -> None:
    said = demo.outcome(0.3, 0.37, realised)
    assert words in said
    assert ("did not hold" in said) == ("within" not in words)


def finding(kind: str, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "title": f"a {kind}", "severity": "crit", "saves": None, **more}


def run_folder(folder: Path, saves: dict[str, Any], before: list[dict[str, Any]] | None = None) -> None:
    fault = finding("COMPUTE_STRAGGLER", ranks=[1], phase="backward", saves=saves)
    for name, seconds, said in (("straggler", 10.0, [*(before or []), fault]), ("fixed", 6.5, [])):
        (folder / name).mkdir()
        summary = {"primary": said[0] if said else {"kind": "BALANCED"}, "findings": said}
        (folder / name / "final_summary.json").write_text(json.dumps(summary))
        (folder / f"{name}.out").write_text(f"loop_s={seconds} steps=140\n")


def test_the_page(tmp_path: Path) -> None:
    run_folder(tmp_path, {"share": 0.37, "low": 0.3, "high": 0.38, "caveat": "other programs use cores of the host"})
    done = subprocess.run([sys.executable, str(SCRIPT), str(tmp_path)], capture_output=True, text=True, check=True)
    assert "predicted saving            30 to 38 %   (wide: other programs use cores of the host)" in done.stdout
    assert "realised saving             35.0 %   (within the predicted range)" in done.stdout


@pytest.mark.parametrize(("kind", "code"), [("CPU_CONTENTION", 0), ("INPUT_BOUND", 1)])
def test_a_busy_machine_may_cost_more_than_the_fault(tmp_path: Path, kind: str, code: int) -> None:
    run_folder(tmp_path, {"share": 0.1, "low": 0.0, "high": 0.4, "caveat": None}, [finding(kind, ranks=[], phase=None)])
    done = subprocess.run([sys.executable, str(SCRIPT), str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert "realised saving             35.0 %   (within the predicted range)" in done.stdout
    assert (f"other programs cost more than the fault: a {kind}" in done.stdout) == (code == 0)

"""final_summary.json and the output of compare keep to their JSON Schemas.

The files come from the C++ writers (report_test dumps its example snapshots), so that the schema is checked against
what is really written: believable runs, an empty one, and arbitrary snapshots with every field missing or odd.
"""

from __future__ import annotations

import copy
import json
import os
import subprocess
from pathlib import Path

import pytest

jsonschema = pytest.importorskip("jsonschema")

ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = ROOT / "docs" / "schema"
BUILD = Path(os.environ.get("STEPSCOPE_BUILD_DIR", ROOT / "build" / "wheel"))


def validator(name: str) -> jsonschema.Draft202012Validator:
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def problems(name: str, document: object) -> list[str]:
    return [f"{'.'.join(map(str, e.absolute_path))}: {e.message[:200]}" for e in validator(name).iter_errors(document)]


@pytest.fixture(scope="module")
def dumped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    binary = BUILD / "report_test"
    if not binary.exists():
        pytest.skip(f"{binary} is not built: run `make test`, or name the build folder by STEPSCOPE_BUILD_DIR")
    folder = tmp_path_factory.mktemp("summaries")
    command = [str(binary), "--gtest_filter=SummaryJson.DumpsExamplesForTheSchemaTest"]
    done = subprocess.run(
        command, env={**os.environ, "STEPSCOPE_DUMP_DIR": str(folder)}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_schemas_are_schemas() -> None:
    names = [path.name for path in SCHEMAS.glob("*.schema.json")]
    assert "final_summary.schema.json" in names
    for name in names:
        validator(name.removesuffix(".schema.json"))


def test_every_summary_validates(dumped: Path) -> None:
    files = sorted(dumped.glob("*.summary.json"))
    assert len(files) >= 35
    for file in files:
        assert problems("final_summary", json.loads(file.read_text())) == [], file.name


def test_compare_output_validates(dumped: Path) -> None:
    document = json.loads((dumped / "regression.compare.json").read_text())
    assert problems("compare", document) == []
    assert document["outcome"] == "regression"


def test_ledger_adds_up_and_shares_sum_to_one(dumped: Path) -> None:
    for name in ("straggler", "balanced", "gpu_job"):
        ledger = json.loads((dumped / f"{name}.summary.json").read_text())["ledger"]
        for rank in ledger["ranks"]:
            assert sum(round(ms * 1e6) for ms in rank["categories"].values()) == round(rank["wall_ms"] * 1e6)
        assert sum(entry["share"] for entry in ledger["job"].values()) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    "path, value",
    [
        (("run", "status"), "fine"),
        (("primary", "severity"), "fatal"),
        (("primary", "ranks"), [-1]),
        (("ledger", "ranks", 0, "categories", "forward"), None),
        (("steps", "wall_ms", "p50"), "79.4"),
        (("per_rank", 0, "state"), "asleep"),
        (("observer", "lost"), -1),
    ],
)
def test_wrong_values_are_refused(dumped: Path, path: tuple[str | int, ...], value: object) -> None:
    document = copy.deepcopy(json.loads((dumped / "straggler.summary.json").read_text()))
    target = document
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    assert problems("final_summary", document) != []


@pytest.mark.parametrize("key", ["schema_version", "ledger", "observer", "sections"])
def test_missing_parts_are_refused(dumped: Path, key: str) -> None:
    document = json.loads((dumped / "straggler.summary.json").read_text())
    del document[key]
    assert problems("final_summary", document) != []

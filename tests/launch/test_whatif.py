"""`stepscope whatif`: figures of published traces, the document's example, bad input. The rules themselves: src/replay."""

from __future__ import annotations

import json
import pathlib
import shlex

import pytest
from launches import refused

from document_examples import console_examples, trimmed
from published import published

ROOT = pathlib.Path(__file__).resolve().parents[2]


TINY = ROOT / "tests" / "data" / "traces" / "tiny.csv"
DOCUMENT = ROOT / "docs" / "whatif.md"


def judged(launch, trace: pathlib.Path) -> dict:
    done = launch.run("whatif", "--json", str(trace))
    assert (done.returncode, done.stderr) == (0, b"")
    return json.loads(done.stdout)


def by_name(groups: list[dict]) -> dict[str, dict]:
    return {group["name"].removeprefix("stage ").removeprefix("dp rank "): group for group in groups}


@pytest.mark.parametrize("name", ["AR", "ST"])
def test_published_figures(launch, name):
    folder = published("whatif")
    figures = judged(launch, folder / f"trace-{name}.csv")
    answers = json.loads((folder / f"result-{name}.json").read_text())
    assert figures["slowdown"] == pytest.approx(answers["blocking_slowdown"], rel=5e-4)
    assert figures["launch_slowdown"] == pytest.approx(answers["launch_slowdown"], rel=5e-4)
    for key, file, letter in (("slowest_workers", "mw", "Mw"), ("last_stage", "ms", "Ms")):
        answer = json.loads((folder / f"{file}-{name}.json").read_text())
        assert figures["shares"][key] == pytest.approx(answer[letter], abs=1e-3)
        assert figures["replayed_step_s"] == pytest.approx(answer["tori"], abs=1e-4)
        assert figures["ideal_step_s"] == pytest.approx(answer["tideal"], abs=1e-4)
    steps = [str(step["step"]) for step in figures["steps"]]
    assert sorted(steps) == sorted(answers["step_t_base"])
    for step in figures["steps"]:
        label = str(step["step"])
        assert step["recorded_s"] == pytest.approx(answers["step_t_base"][label], abs=1e-4)
        assert step["replayed_s"] == pytest.approx(answers["step_t_nodelay"][label], abs=1e-4)
        assert step["slowdown"] == pytest.approx(answers["blocking_step_slowdown"][label], abs=1e-3)
    for key, answer_key in (("by_type", "optype"), ("by_stage", "stage"), ("by_dp_rank", "dp_rank")):
        groups, expected = by_name(figures[key]), answers[f"blocking_decompose_by_{answer_key}"]
        assert groups.keys() == expected.keys()
        per_step = answers[f"blocking_decompose_by_{answer_key}_per_step"]
        for group, value in expected.items():
            assert groups[group]["slowdown"] == pytest.approx(value, abs=1e-3), group
            for label, slowdown in zip(steps, groups[group]["by_step"], strict=True):
                assert slowdown == pytest.approx(per_step[label][group], abs=1e-3), (group, label)
    assert figures["impossible_splits"] == 0 and figures["closure_error_ms"] < 1e-3


def test_published_causes(launch):
    folder = published("whatif")
    worker = judged(launch, folder / "trace-AR.csv")["verdict"]
    assert worker["straggling"] == "clear"
    assert [(cause["cause"], cause.get("ranks")) for cause in worker["causes"]] == [("slow_workers", [0])]
    stage = judged(launch, folder / "trace-ST.csv")["verdict"]
    assert stage["straggling"] == "clear"
    assert [(cause["cause"], cause.get("stage")) for cause in stage["causes"]] == [("long_last_stage", 3)]
    assert "rank 7" not in " ".join(stage["sentences"])


def test_worked_trace(launch):
    figures = judged(launch, TINY)
    assert figures["slowdown"] == 1.086957 and figures["replayed_step_s"] == 12.5 and figures["ideal_step_s"] == 11.5
    assert figures["shares"]["slowest_workers"] == 1.5 and figures["shares"]["last_stage"] == -0.5
    assert by_name(figures["by_stage"])["0"]["slowdown"] == 1.130435
    assert figures["workers"][0] == {"rank": 1, "stage": 0, "dp_rank": 1, "slowdown": 1.086957}
    assert figures["ideal_ms"]["forward-compute"] == 1500


def test_the_documents_example_is_what_is_printed(launch):
    examples = console_examples(DOCUMENT)
    assert examples
    for command, expected in examples:
        words = shlex.split(command)
        assert words[0] == "stepscope"
        done = launch.run(*words[1:], cwd=ROOT)
        assert trimmed(done.stdout.decode() + done.stderr.decode()) == expected


def test_fields_of_the_document_are_those_of_the_output(launch):
    text = DOCUMENT.read_text()
    for field in judged(launch, TINY):
        assert f"`{field}`" in text, field


def without(line_number: int) -> str:
    lines = TINY.read_text().splitlines(keepends=True)
    return "".join(lines[:line_number] + lines[line_number + 1 :])


@pytest.mark.parametrize(
    "text, said",
    [
        ("", "an empty file"),
        ("\x00\x01\x02", "no column dp_rank"),
        ("PAR1", "a Parquet file"),
        (TINY.read_text().split("\n")[0] + "\n", "no operation in it"),
        (TINY.read_text()[:-40], "line 44: 10 fields"),
        (without(5), "is missing in step 0, data-parallel rank "),
        (
            TINY.read_text() + TINY.read_text().splitlines()[-1],
            "optimizer 0 of stage 1 is there twice in step 0, data-parallel rank 1",
        ),
    ],
)
def test_bad_input_is_one_line(launch, text, said):
    (launch.folder / "bad.csv").write_text(text)
    line = refused(launch, "whatif", "bad.csv")
    assert line.startswith("stepscope: bad.csv") and said in line


def test_a_file_that_is_not_there_is_one_line(launch):
    for name in ("none.csv", "."):
        refused(launch, "whatif", name)

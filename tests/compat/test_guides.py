"""Every command in docs/guides is run as it stands, and does what the text beside it says. ```sh fails: exit code not 0."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from compat_runs import stepscope

from jobs import ROOT

GUIDES = ROOT / "docs/guides"


class Played:
    """A guide whose commands have been run, in order, in one folder."""

    def __init__(self, name: str, folder: Path) -> None:
        (folder / "examples").symlink_to(ROOT / "examples")
        self.folder = folder
        self.outputs: list[str] = []
        self.codes: list[int] = []
        for how, line in commands(name):
            words = shlex.split(line)
            assert words[0] == "stepscope", line
            done = stepscope(folder, *words[1:])
            self.outputs.append(done.stdout + done.stderr)
            self.codes.append(done.rc)
            allowed = done.rc != 0 if how else done.rc == 0
            assert allowed or words[1] == "compare", f"{line}: exit {done.rc}\n{done.stderr[-3000:]}"

    def summary(self, run: str) -> dict:
        return json.loads((self.folder / "logs" / run / "final_summary.json").read_text())


def findings(summary: dict, kind: str) -> list[dict]:
    """Not the primary one: on a machine that is busy otherwise, that comes first."""
    return [f for f in summary["findings"] if f["kind"] == kind]


def commands(name: str) -> list[tuple[str, str]]:
    blocks = re.findall(r"^```sh( fails)?\n(.*?)^```", (GUIDES / name).read_text(), re.M | re.S)
    return [(how.strip(), line) for how, block in blocks for line in block.splitlines() if line.strip()]


def test_every_guide_is_played_below() -> None:
    played = set(re.findall(r'Played\("([\w-]+\.md)"', Path(__file__).read_text()))
    assert {p.name for p in GUIDES.glob("*.md") if commands(p.name)} == played


def test_guides_use_only_commands_that_are_run() -> None:
    for page in GUIDES.glob("*.md"):
        plain = re.sub(r"^```sh.*?^```", "", page.read_text(), flags=re.M | re.S)
        assert not re.search(r"^(    |\$ )stepscope ", plain, re.M), f"{page.name}: a command outside of a ```sh block"


@pytest.mark.slow
def test_slow_training(tmp_path: Path) -> None:
    played = Played("slow-training.md", tmp_path)
    assert findings(played.summary("before"), "INPUT_BOUND")[0]["severity"] in ("warn", "crit")
    assert "INPUT-BOUND" in played.outputs[0]
    faster = [played.summary(run)["steps"]["wall_ms"]["p50"] for run in ("after", "before")]
    assert faster[0] < faster[1]
    assert played.codes[-1] in (0, 3) and "step" in played.outputs[-1]


@pytest.mark.slow
def test_compare_runs(tmp_path: Path) -> None:
    played = Played("compare-runs.md", tmp_path)
    verdict = json.loads((tmp_path / "verdict.json").read_text())
    step = verdict["figures"][0]
    assert step["change"] > 0.3 and len(verdict["a"]["runs"]) == 3
    told = step["noise"] < step["change"]  # runs of a busy machine may differ by more
    assert (verdict["exit_code"], played.codes[-1]) == ((4, 4) if told else (3, 0)), played.outputs[-1]
    word = "REGRESSION" if told else "INCONCLUSIVE"
    assert (tmp_path / "verdict.md").read_text().startswith(f"### {word}\n")
    assert word in (tmp_path / "verdict.txt").read_text()


@pytest.mark.slow
def test_ddp_stragglers(tmp_path: Path) -> None:
    played = Played("ddp-stragglers.md", tmp_path)
    late = [(f["ranks"], f["phase"]) for f in findings(played.summary("slow"), "COMPUTE_STRAGGLER")]
    assert ([1], "backward") in late
    assert not [f for f in findings(played.summary("fixed"), "COMPUTE_STRAGGLER") if f["severity"] == "crit"]
    assert "Delays others" in played.outputs[0]
    assert played.codes[2] in (0, 4)  # judged by the machine's own noise; a busy one may turn it round


@pytest.mark.slow
def test_read_the_output(tmp_path: Path) -> None:
    played = Played("read-the-output.md", tmp_path)
    for part in ("Where the time went", "Step time", "Ranks", "Sections", "Observer"):
        assert part in played.outputs[1], part
    files = {p.name for p in (tmp_path / "logs/example").iterdir()}
    named = set(re.findall(r"^\| `([\w.]+)/?` \|", (GUIDES / "read-the-output.md").read_text(), re.M))
    assert len(named) == 6 and named - {"output.log"} <= files  # that one is kept under --mode cli alone
    assert (tmp_path / "example.html").read_text().lstrip().lower().startswith("<!doctype html")
    ring = next((tmp_path / "logs/example/blackbox").glob("*.ring"))
    rows = [json.loads(line) for line in stepscope(tmp_path, "inspect", str(ring)).stdout.splitlines()]
    assert rows[0]["rank"] in (-1, 0) and rows[-1]["records"] == sum("time_ns" in r for r in rows) > 300
    assert sum(r.get("kind") == "Optimizer" and r["edge"] == "end" for r in rows) == 60


@pytest.mark.slow
def test_hangs_and_lost_ranks(tmp_path: Path) -> None:
    played = Played("hangs-and-lost-ranks.md", tmp_path)
    primary = played.summary("crash")["primary"]
    assert (primary["kind"], primary["ranks"]) == ("RANK_LOST", [1])
    assert "Rank 1 was killed by signal 9" in played.outputs[0] and "Rank 1 was killed by signal 9" in played.outputs[1]
    assert len(list((tmp_path / "logs/rings/blackbox").glob("*.ring"))) == 2

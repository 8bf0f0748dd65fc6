"""`stepscope explain`: every page is in the binary, any spelling finds it, an unknown kind is one clear line."""

from __future__ import annotations

import re
import subprocess

import pytest

from jobs import ROOT, binary

PAGES = sorted(p for p in (ROOT / "docs/findings").glob("*.md") if p.name != "README.md")


def explain(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([binary(), "explain", *words], capture_output=True, text=True, timeout=20)


def test_every_page_is_built_in() -> None:
    assert explain().stdout.split() == [p.stem for p in PAGES]
    for page in PAGES:
        assert explain(page.stem.upper().replace("-", "_")).stdout == page.read_text()


@pytest.mark.parametrize("spelling", ["COMPUTE_STRAGGLER", "COMPUTE STRAGGLER", "compute-straggler"])
def test_any_spelling(spelling: str) -> None:
    assert explain(spelling).stdout == (ROOT / "docs/findings/compute-straggler.md").read_text()


def test_thresholds_are_those_of_the_spec() -> None:
    spec = (ROOT / "spec/rules.toml").read_text().partition("[rules]")[2]
    rows = dict(re.findall(r"^([a-z0-9_]+) = \[([^,]+),", spec, re.M))
    lines = [line.split(maxsplit=2) for line in explain("thresholds").stdout.splitlines()]
    assert len(rows) > 100 and [name for name, *_ in lines] == sorted(rows)
    for name, default, why in lines:
        assert float(default) == float(rows[name]) and "; " in why, name


def test_unknown_kind() -> None:
    out = explain("NO_SUCH_KIND")
    assert out.returncode == 2 and out.stdout == "" and out.stderr.count("\n") == 1

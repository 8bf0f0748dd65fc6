"""Documents keep to the code: links lead somewhere, every kind has its page, tables and thresholds exist."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import event_kinds
import kinds as kind_table

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    tomllib = None  # type: ignore[assignment]

ROOT = Path(__file__).resolve().parents[1]


FINDINGS = ROOT / "docs" / "findings"
CHECK_LAYERS = ROOT / "tools" / "check_layers.py"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "src" / "README.md"])


def slug(kind: str) -> str:
    return kind.lower().replace("_", "-")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_relative_links_lead_somewhere(document: Path) -> None:
    text = re.sub(r"```.*?```", "", document.read_text(), flags=re.S)
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if not re.match(r"[a-z]+:", target):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_every_kind_that_is_said_has_its_page_and_no_page_is_left_over() -> None:
    said = {kind.page for kind in kind_table.kinds() if kind.said}
    assert {"input-bound", "compute-straggler", "rank-lost"} <= said
    assert said == {page.stem for page in FINDINGS.glob("*.md") if page.name != "README.md"}


def test_schema_and_index_agree_with_the_table_of_kinds() -> None:
    done = subprocess.run([sys.executable, str(ROOT / "tools" / "kinds.py")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_kind_or_cause_that_the_schema_lacks_is_noticed() -> None:
    schema, index = kind_table.SCHEMA.read_text(), kind_table.INDEX.read_text()
    assert kind_table.schema(schema.replace('"GC_PAUSE", ', "")) == schema
    assert kind_table.schema(schema.replace('"handover", ', "")) == schema
    assert kind_table.schema(schema.replace('"stopped", ', "")) == schema
    assert kind_table.index(index.replace("step time, whole job", "system, ranks")) == index


def test_rules_speak_of_kinds_and_causes_by_enumerators() -> None:
    """A word of the table as a literal in the rooms that judge and read is a second vocabulary."""
    words = {kind.spelling for kind in kind_table.kinds()} | {kind.section for kind in kind_table.kinds()}
    words |= {*kind_table.causes(), *kind_table.states(), *(cause + "0" for cause in kind_table.numbered_causes())}
    for room in ("diagnose", "report", "store", "agent"):
        for path in sorted((ROOT / "src" / room).glob("*.cc")):
            if path.stem.endswith(("_test", "_fuzz", "_bench")) or path.name == "finding_kind.cc":
                continue
            text = path.read_text()
            literals = set(re.findall(r'"([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)"', text)) & words
            compared = re.findall(
                r'\b(?:kind|cause|section|state|diagnosis)(?:\.text\(\)|\.str\(\))? ?(?:==|!=|=) ?"(\w+)"', text
            )
            assert not literals and not words & set(compared), f"{path.name}: {literals} {compared}"


@pytest.mark.parametrize(
    "page", sorted(p for p in FINDINGS.glob("*.md") if p.name != "README.md"), ids=lambda p: p.stem
)
def test_pages_of_findings_are_complete(page: Path) -> None:
    text = page.read_text()
    assert re.match(r"# [A-Z]", text)
    match = re.search(r"^`([A-Z0-9_]+)` · ", text, re.M)
    assert match and slug(match[1]) == page.stem
    sections = re.findall(r"^## (.+)$", text, re.M)
    assert sections == ["Meaning", "Formula", "False positives", "What to do"]
    for part in re.split(r"^## .+$", text, flags=re.M)[1:]:
        assert part.strip()
    assert f"({page.name})" in (FINDINGS / "README.md").read_text(), "not in the index"


@pytest.mark.skipif(tomllib is None, reason="tomllib needs Python 3.11")
def test_thresholds_named_in_formulas_exist() -> None:
    spec = tomllib.loads((ROOT / "spec" / "rules.toml").read_text())
    known = {name for section in ("rules", "host") for name in spec[section]}
    # Names of other things that formulas speak of: categories, fields, causes.
    others = set(re.findall(r'"([a-z0-9_]+)"', (ROOT / "src/align/category.h").read_text()))
    others |= set(kind_table.causes()) | {"trace_step", "first_late_bucket", "init_process_group"}
    for page in FINDINGS.glob("*.md"):
        formula = page.read_text().partition("## Formula")[2].partition("## ")[0]
        for name in re.findall(r"`([a-z0-9]+(?:_[a-z0-9]+)+)`", formula):
            assert name in known | others, (
                f"{page.name}: `{name}` is neither a threshold of spec/rules.toml nor a category"
            )


def test_architecture_holds_the_arrows_that_lint_checks() -> None:
    table = subprocess.run(
        [sys.executable, str(CHECK_LAYERS), "--table"], capture_output=True, text=True, check=True
    ).stdout
    assert table in (ROOT / "ARCHITECTURE.md").read_text(), (
        "run tools/check_layers.py --table and paste it into ARCHITECTURE.md"
    )


def test_every_room_is_described() -> None:
    rooms = {p.name for p in (ROOT / "src").iterdir() if p.is_dir()}
    described = set(re.findall(r"^\*\*([a-z]+)/\*\*", (ROOT / "src" / "README.md").read_text(), re.M))
    assert rooms <= described


def make_calls() -> set[tuple[str, ...]]:
    """Target and settings of every `make` in the documents."""
    call = re.compile(r"(?:^    |`)(?:[A-Z_]+=\S+ )?make ([a-z-]+(?: [A-Z_]+=[\w./-]+)*)", re.M)
    return {tuple(words.split()) for document in DOCUMENTS for words in call.findall(document.read_text())}


@pytest.mark.parametrize("words", sorted(make_calls()), ids=" ".join)
def test_make_knows_every_call_in_documents(words: tuple[str, ...]) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(["make", "-n", *words], cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout, done.stderr


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_named_in_documents_exist(document: Path) -> None:
    folders = "|".join(p.name for p in ROOT.iterdir() if p.is_dir() and not p.name.startswith("."))
    rooms = "|".join(p.name for p in (ROOT / "src").iterdir() if p.is_dir())
    text, kinds = document.read_text(), "py|sh|h|cc|md|def|toml|json|scn"
    for name in re.findall(rf"(?<![\w./-])((?:{folders})/[\w./-]+\.(?:{kinds}))\b", text):
        known = "NAME" in name or (ROOT / name).exists() or (document.parent / name).exists()
        assert known, f"{document.name}: {name}"
    for name in re.findall(rf"(?<![\w./-])((?:{rooms})/\w+\.(?:h|cc|def))\b", text):
        assert (ROOT / "src" / name).exists(), f"{document.name}: {name}"


def test_schema_lists_the_categories_of_the_ledger() -> None:
    names = (ROOT / "src/align/category.h").read_text().partition("kCategoryNames = {")[2].partition("};")[0]
    schema = json.loads((ROOT / "docs/schema/final_summary.schema.json").read_text())
    assert schema["$defs"]["every_category"]["required"] == re.findall(r'"([a-z0-9_]+)"', names)


def test_licence_is_apache_2() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text and "Version 2.0, January 2004" in text and "END OF TERMS AND CONDITIONS" in text


def check_layers(src: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(CHECK_LAYERS), "--src", str(src)], capture_output=True, text=True)


def test_sources_keep_to_the_arrows() -> None:
    done = check_layers(ROOT / "src")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    "file, line, complaint",
    [
        ("recorder/x.cc", '#include "align/category.h"', "recorder may not include align/category.h"),
        ("align/x.cc", '#include "blackbox/layout.h"', "align may not include blackbox/layout.h"),
        ("align/x.h", '#include "blackbox/event_kind.h"', ""),
        ("diagnose/x.cc", "#include <fstream>", "diagnose is pure and may not include <fstream>"),
        ("diagnose/x.cc", '#include "report/summary_text.h"', "diagnose may not include report/summary_text.h"),
        ("diagnose/x_test.cc", "#include <fstream>", ""),
        ("report/x.cc", "#include <nlohmann/json.hpp>", ""),
        ("diagnose/x.cc", "#include <nlohmann/json.hpp>", "<nlohmann/json.hpp> is kept to"),
        ("blackbox/x.cc", "#include <fmt/format.h>", "links libc and libstdc++ only"),
        ("cli/x.cc", '  #  include "agent/pipeline.h"', ""),
        ("attic/x.cc", "", "room attic has no line in ARROWS"),
    ],
)
def test_check_layers_sees_a_wrong_include(tmp_path: Path, file: str, line: str, complaint: str) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(line + "\n")
    done = check_layers(tmp_path)
    assert done.returncode == (1 if complaint else 0), done.stdout
    assert complaint in done.stdout


def test_format_of_records_lists_every_kind_of_the_header() -> None:
    header = event_kinds.HEADER.read_text()
    listed = event_kinds.kinds(header)
    assert len(listed) == len(re.findall(r"^  X\(\w+, \d+\)", header, re.M)) > 30
    page = event_kinds.PAGE.read_text()
    assert event_kinds.renewed(page, header) == page
    assert event_kinds.renewed(page, header.replace("/* mark; a = ProcessEvent */", "/* mark; b = Other */")) != page

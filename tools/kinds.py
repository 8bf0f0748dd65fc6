#!/usr/bin/env python3
"""What documents take from the table of kinds (src/diagnose/kinds.def) and of rank states (src/align/rank_state.h).

The JSON Schema of the summary lists kinds, causes, sections and states; the index of docs/findings/ has a row per kind,
of which all but the last column (one sentence, by hand or the first of its page) follows from the table.

    tools/kinds.py           fails where a document does not agree
    tools/kinds.py --write   brings them into agreement
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "src" / "diagnose" / "kinds.def"
STATES = ROOT / "src" / "align" / "rank_state.h"
SCHEMA = ROOT / "docs" / "schema" / "final_summary.schema.json"
INDEX = ROOT / "docs" / "findings" / "README.md"

SCOPES = {"kRanks": "ranks", "kJob": "whole job", "kEither": "ranks or whole job"}
ALWAYS_INFO = ", always info"


class Kind(NamedTuple):
    """A row of the table. `causes` are enumerators, `section` is the word in JSON."""

    spelling: str
    display: str
    page: str
    section: str
    scope: str
    said: bool
    causes: tuple[str, ...]

    @property
    def about(self) -> str:
        return f"{self.section.replace('_', ' ')}, {SCOPES[self.scope]}"


def snake(enumerator: str) -> str:
    """kStepTime -> step_time."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", enumerator.removeprefix("k")).lower()


def kinds() -> list[Kind]:
    """The rows of KIND(...), in order."""
    row = re.compile(
        r'^KIND\(\w+, "(\w+)", "([^"]+)", "([^"]+)",\s+(\w+), (\w+), \w+, ([\w |]+), CAUSES\(([^)]*)\)\)', re.M
    )
    text = TABLE.read_text()
    rows = [
        Kind(m[1], m[2], m[3], snake(m[4]), m[5], "kNotSaidYet" not in m[6], tuple(re.findall(r"\w+", m[7])))
        for m in row.finditer(text)
    ]
    if len(rows) != len(re.findall(r"^KIND\(", text, re.M)):
        raise ValueError(f"{TABLE}: a KIND row has another shape than this script reads")
    return rows


def causes() -> list[str]:
    """The spellings of CAUSE(...), without the numbered ones."""
    return re.findall(r'^CAUSE\(\w+, "(\w+)"', TABLE.read_text(), re.M)


def numbered_causes() -> list[str]:
    """What stands before the number: "signal_"."""
    return re.findall(r'^NUMBERED_CAUSE\(\w+, "(\w+)"', TABLE.read_text(), re.M)


def states() -> list[str]:
    """The states of a rank."""
    return re.findall(r'^ +X\(k\w+, "(\w+)"', STATES.read_text(), re.M)


def listed(words: list[str], indent: str) -> str:
    """A JSON array over as many lines as it needs."""
    return "\n".join(textwrap.wrap(json.dumps(words), 120, initial_indent=indent, subsequent_indent=indent + " "))


def schema(text: str) -> str:
    """The schema with the vocabularies of the tables."""
    wide = " " * 10
    sections = list(dict.fromkeys(kind.section for kind in kinds()))
    pattern = f"^({'|'.join(numbered_causes())})[0-9]+$"
    parts = {
        "kind": '{"enum":\n' + listed([kind.spelling for kind in kinds()], wide) + "}",
        "cause": f'{{"anyOf": [\n{wide}{{"type": "null"}},\n'
        f'{wide}{{"type": "string", "pattern": {json.dumps(pattern)}}},\n'
        f'{wide}{{"enum":\n{listed(causes(), wide)}}}]}}',
        "section": f'{{"enum": {json.dumps([None, *sections])}}}',
        "state": f'{{"enum": {json.dumps(states())}}}',
    }
    for name, value in parts.items():
        # The value ends where its braces close.
        begin = re.search(rf'^ {{8}}"{name}": ', text, re.M)
        if begin is None:
            raise ValueError(f"{SCHEMA}: no property {name}")
        _, end = json.JSONDecoder().raw_decode(text, begin.end())
        text = text[: begin.end()] + value + text[end:]
    return text


def first_sentence(page: str) -> str:
    """What the page of a kind begins its meaning with; a page that is missing raises FileNotFoundError."""
    meaning = (INDEX.parent / f"{page}.md").read_text().partition("## Meaning\n")[2].strip()
    return re.split(r"(?<=\.)\s", meaning.split("\n\n")[0].replace("\n", " "))[0]


def index(text: str) -> str:
    """The index with a row per kind that a rule can say; sentences stay, new ones are the first of their pages."""
    head, rule, rows = text.partition("|---|---|---|---|\n")
    sentences: dict[str, tuple[bool, str]] = {}
    for m in re.finditer(r"^\| .*? \| `(\w+)` \| (.*?) \| (.*?) \|$", rows, re.M):
        if not m[3].startswith("TODO"):
            sentences[m[1]] = (m[2].endswith(ALWAYS_INFO), m[3])
    lines = []
    for kind in kinds():
        if kind.said:
            info, sentence = sentences.get(kind.spelling) or (False, first_sentence(kind.page))
            about = kind.about + (ALWAYS_INFO if info else "")
            lines.append(f"| [{kind.display}]({kind.page}.md) | `{kind.spelling}` | {about} | {sentence} |\n")
    rest = re.sub(r"^\|.*\|\n", "", rows, flags=re.M)
    return head + rule + "".join(lines) + rest


def main() -> int:
    """Returns 1 where a document did not agree, 2 for a table that cannot be read."""
    write = sys.argv[1:] == ["--write"]
    if sys.argv[1:] and not write:
        print("usage: tools/kinds.py [--write]", file=sys.stderr)
        return 2
    wrong = 0
    for path, renewed in ((SCHEMA, schema), (INDEX, index)):
        text = path.read_text()
        if (new := renewed(text)) == text:
            continue
        if write:
            path.write_text(new)
        else:
            wrong = 1
            print(
                f"{path.relative_to(ROOT)} disagrees with the table of kinds: tools/kinds.py --write", file=sys.stderr
            )
    return wrong


if __name__ == "__main__":
    sys.exit(main())

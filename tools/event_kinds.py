#!/usr/bin/env python3
"""The table of event kinds in docs/formats/blackbox.md, from src/blackbox/event_kind.h: event_kinds.py [--write].

Without --write: exit code 1 when the page and the header differ.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HEADER = ROOT / "src" / "blackbox" / "event_kind.h"
PAGE = ROOT / "docs" / "formats" / "blackbox.md"
BEGIN, END = "<!-- event kinds: tools/event_kinds.py --write -->", "<!-- /event kinds -->"


def kinds(header: str) -> list[tuple[str, int, str]]:
    """(name, number, meaning) of each kind, in the header's order."""
    found = re.findall(r"X\((\w+), (\d+)\)\s*/\*(.*?)\*/", header.replace("\\\n", "\n"), re.S)
    return [(name, int(number), " ".join(text.split())) for name, number, text in found]


def table(rows: list[tuple[str, int, str]]) -> str:
    lines = ["| number | kind | edges, and what `a` `b` `c` `d` and the flags hold |", "|---:|---|---|"]
    lines += [f"| {number} | `{name}` | {text.replace('|', chr(92) + '|')} |" for name, number, text in rows]
    return "\n".join(lines)


def renewed(page: str, header: str) -> str:
    """The page with the header's table. ValueError when it has no place for one."""
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE.name}: no place for the table between {BEGIN} and {END}")
    return f"{head}{BEGIN}\n\n{table(kinds(header))}\n\n{END}{tail}"


def main() -> int:
    page = PAGE.read_text()
    new = renewed(page, HEADER.read_text())
    if new == page:
        return 0
    if "--write" in sys.argv[1:]:
        PAGE.write_text(new)
        return 0
    print(f"{PAGE.relative_to(ROOT)} disagrees with {HEADER.name}: tools/event_kinds.py --write", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())

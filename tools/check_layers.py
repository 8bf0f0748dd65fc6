#!/usr/bin/env python3
"""Checks every #include of src/ against the arrows between rooms (ARCHITECTURE.md holds the same table).

A room is a folder of src/. Three rules:
  1. A file includes headers of its own room and of the rooms that ARROWS allows.
  2. Pure rooms (PURE_ROOMS) include no header for sockets, files, clocks, threads or SQLite.
  3. Some libraries are kept behind few files: LIBRARIES says which room may include which.
Tests, benchmarks and fuzzers beside the code may see what their room sees, every room their room builds on, and
test libraries.

Exit code 0 = clean, 1 = violations (one line each), 2 = cannot check.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

# room -> rooms whose headers it may include. "room/file.h" allows that header only.
ARROWS: dict[str, tuple[str, ...]] = {
    "base": (),
    "blackbox": ("base",),
    "recorder": ("base", "blackbox"),
    "sampler": ("base", "align/host_facts.h"),
    "align": ("base/result.h", "blackbox/event_kind.h"),
    "analyze": ("base/result.h", "align"),
    "diagnose": ("base/result.h", "base/text_format.h", "align", "analyze"),
    "store": ("base", "align", "analyze", "diagnose"),
    "replay": ("base/result.h", "base/text_format.h"),
    "flight": ("base/result.h", "base/text_format.h", "base/json_bounds.h"),
    "report": (
        "base/result.h",
        "base/text_format.h",
        "base/json_bounds.h",
        "align",
        "diagnose",
        "store",
        "replay",
        "flight",
    ),
    "tables": ("base/result.h", "blackbox/text.h", "align", "diagnose", "store", "report/summary_read.h"),
    "agent": ("base", "blackbox", "sampler", "align", "analyze", "diagnose", "store", "report"),
    "serve": ("base", "align", "diagnose", "store", "report"),
    "tui": ("base", "align", "diagnose", "store", "report"),
    "cli": (
        "base",
        "blackbox",
        "sampler",
        "align",
        "analyze",
        "diagnose",
        "store",
        "replay",
        "flight",
        "report",
        "tables",
        "agent",
        "serve",
        "tui",
    ),
}

PURE_ROOMS = ("align", "analyze", "diagnose", "replay", "flight", "report", "tables")
IMPURE_HEADERS = re.compile(
    r"^(sys/(?!types\.h)\w+\.h|netinet/.*|arpa/.*|fcntl\.h|unistd\.h|poll\.h|pthread\.h|time\.h|sqlite3\.h"
    r"|ctime|chrono|fstream|iostream|filesystem|thread|mutex|condition_variable|future|boost/.*)$"
)

# library header -> rooms that may include it
LIBRARIES: dict[str, tuple[str, ...]] = {
    r"nlohmann/": ("flight", "report", "agent", "serve", "store", "cli"),
    r"CLI/": ("cli",),
    r"boost/": ("agent", "serve"),
    r"toml\+\+/": ("cli",),
    r"sqlite3\.h|zstd\.h": ("store",),
    r"(ncurses|curses|panel)": ("tui",),
    r"Python\.h": ("recorder", "tables"),
}
# fmt (by base/text_format.h) is everywhere but where nothing beside libc and libstdc++ may be linked.
NO_FMT = ("blackbox", "recorder")

INCLUDE = re.compile(r'^\s*#\s*include\s*(?P<open>[<"])(?P<name>[^>"]+)[>"]')
TEST_FILE = re.compile(r"_(test|bench|fuzz)\.cc$|^fake_")


def includes(path: Path) -> Iterator[tuple[int, bool, str]]:
    """Yields (line number, in quotes, name) of every #include."""
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        if match := INCLUDE.match(line):
            yield number, match["open"] == '"', match["name"]


def may_see(room: str) -> set[str]:
    """Rooms that a room builds on, directly or not."""
    seen: set[str] = set()
    todo = [room]
    while todo:
        for entry in ARROWS[todo.pop()]:
            other = entry.split("/")[0]
            if other not in seen:
                seen.add(other)
                todo.append(other)
    return seen


def allowed(room: str, name: str, is_test: bool) -> bool:
    other = name.split("/")[0]
    if other == room or name in ARROWS[room] or other in ARROWS[room]:
        return True
    return is_test and other in may_see(room)


def violations(src: Path) -> Iterator[str]:
    for path in sorted(p for p in src.rglob("*") if p.suffix in (".h", ".cc")):
        relative = path.relative_to(src)
        if len(relative.parts) < 2:
            yield f"src/{relative}: lies in no room"
            continue
        room, is_test = relative.parts[0], bool(TEST_FILE.search(path.name))
        if room not in ARROWS:
            yield f"src/{relative}: room {room} has no line in ARROWS"
            continue
        for number, quoted, name in includes(path):
            where = f"src/{relative}:{number}"
            first = name.split("/")[0]
            if quoted and first in ARROWS and not allowed(room, name, is_test):
                yield f"{where}: {room} may not include {name}"
            if is_test:
                continue
            if room in PURE_ROOMS and IMPURE_HEADERS.match(name):
                yield f"{where}: {room} is pure and may not include <{name}>"
            for library, rooms in LIBRARIES.items():
                if re.match(library, name) and room not in rooms:
                    yield f"{where}: <{name}> is kept to {', '.join(rooms)}"
            if room in NO_FMT and name.startswith("fmt/"):
                yield f"{where}: {room} links libc and libstdc++ only, no <{name}>"


def table() -> str:
    """The arrows as the Markdown table of ARCHITECTURE.md."""
    lines = ["| room | may include |", "|---|---|"]
    for room, others in ARROWS.items():
        lines.append(f"| `{room}` | {', '.join(f'`{o}`' for o in others) or 'nothing of ours'} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--src", type=Path, default=Path(__file__).resolve().parents[1] / "src")
    parser.add_argument("--table", action="store_true", help="print the arrows as a Markdown table")
    options = parser.parse_args()
    if options.table:
        print(table(), end="")
        return 0
    if not options.src.is_dir():
        print(f"check_layers: no folder {options.src}", file=sys.stderr)
        return 2
    found = list(violations(options.src))
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

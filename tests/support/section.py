"""The section of docs/matrix.md that is not matrix.py's: each of the two programs keeps what the other wrote."""

from __future__ import annotations

from collections.abc import Sequence

TITLE = "## Test suites of other projects"


def split(text: str) -> tuple[str, str]:
    """What matrix.py wrote, what thirdparty.py wrote (with its title; "" = nothing yet)."""
    before, title, after = text.partition(TITLE)
    return before.rstrip() + "\n", title + after


def renewed(text: str, lines: Sequence[str]) -> str:
    return "\n".join([split(text)[0], TITLE, "", *lines, ""])

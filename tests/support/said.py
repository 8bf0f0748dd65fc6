"""What jobs say about themselves: lines of ``JSON {...}`` among their output."""

from __future__ import annotations

import json
from typing import Any


def said(out: str) -> dict[str, Any]:
    """Everything that a job printed as ``JSON {...}`` lines, merged; ranks' own facts under "rank<k>"."""
    merged: dict[str, Any] = {}
    for line in out.splitlines():
        _, found, text = line.partition("JSON ")
        if found:
            merged.update(json.loads(text))
    return merged

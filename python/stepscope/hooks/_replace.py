"""Replaces a function of torch under every name that torch itself has given it."""

from __future__ import annotations

import sys
from typing import Any


def replace_everywhere(original: Any, wrapped: Any, name: str, prefix: str = "torch") -> int:
    """Sets ``name`` in each module below ``prefix`` that holds ``original`` under it. Returns how many."""
    count = 0
    for key, module in list(sys.modules.items()):
        if module is None or not (key == prefix or key.startswith(prefix + ".")):
            continue
        space = getattr(module, "__dict__", {})
        if space.get(name) is original:
            space[name] = wrapped
            count += 1
    return count

"""What the API calls where the native part cannot be loaded: nothing happens."""

from __future__ import annotations

from typing import Any


def _nothing(*args: Any) -> None:
    return None


def active() -> bool:
    """Never recording."""
    return False


def may_be_rank() -> bool:
    """Never one that is recorded."""
    return False


mark = span = value = step_begin = step_end = usage = add_evidence = _nothing
forward_pre = forward_post = optimizer_pre = optimizer_post = backward_begin = backward_end = _nothing

"""summary and final_summary, in TraceML's keys."""

from __future__ import annotations

import os
import sys
from typing import Any

import stepscope
from stepscope.compat import missing
from stepscope.compat.traceml._project import flat, full

_NOT_YET = "the agent did not answer in time; final_summary.json is written when the training command has ended"


def final_summary(
    timeout_sec: float = 30.0,
    poll_interval_sec: float = 0.1,
    print_text: bool = False,
    rank0_only: bool = True,
    **_: Any,
) -> dict[str, Any] | None:
    """The summary as it stands, with TraceML's sections beside stepscope's own (under ``"stepscope"``).

    It may be called at any time and freezes nothing: ``final_summary.json`` covers the whole run. None on other ranks
    (``rank0_only``) and where the agent does not answer within ``timeout_sec`` seconds.
    """
    if rank0_only and os.environ.get("RANK", "0") != "0":
        return None
    ours = stepscope.summary(timeout_s=timeout_sec)
    if ours is None:
        missing("final_summary()", _NOT_YET)
        return None
    result = full(ours)
    if print_text:
        print(result["text"], file=sys.stdout, flush=True)
    return result


def summary(timeout_sec: float = 5.0, rank0_only: bool = True, **_: Any) -> dict[str, Any]:
    """A flat dict of ``traceml/…`` keys for an experiment logger; empty on other ranks and without an answer."""
    if rank0_only and os.environ.get("RANK", "0") != "0":
        return {}
    ours = stepscope.summary(timeout_s=timeout_sec)
    if ours is None:
        missing("summary()", _NOT_YET)
        return {}
    return flat(ours)

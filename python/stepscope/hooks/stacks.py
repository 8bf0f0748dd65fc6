"""Python stacks for the agent: a real-time signal's handler in C, asked only when something is suspected.

Off with ``STEPSCOPE_STACKS=off`` (``stepscope run --stacks off``). Where it cannot be had (another Python, a sandbox, no
free signal) the reason is reported, and the agent falls back on what /proc tells.
"""

from __future__ import annotations

import os
import sys
import threading
from types import ModuleType

from stepscope.hooks import names


def install(_torch: ModuleType, native: ModuleType) -> None:
    if os.environ.get("STEPSCOPE_STACKS", "on").lower() in ("off", "0", "false", "no"):
        names.unavailable("stacks", "switched off")
        return
    reason = native.listen_for_stacks(*sys.version_info[:2])
    if reason:
        names.unavailable("stacks", reason)
    else:
        _offer_threads(native)


def _offer_threads(native: ModuleType) -> None:
    """Threads of Python's that begin from now on get a stack for the signal's handler: others are never asked."""
    for name in ("_start_joinable_thread", "_start_new_thread"):  # Python 3.13 and newer; before
        start = getattr(threading, name, None)
        if start is not None:
            setattr(threading, name, native.thread_starter(start))
            return

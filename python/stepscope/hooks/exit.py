"""The end of the process: life bits at interpreter exit. Registered first, so it runs after the user's own handlers."""

from __future__ import annotations

import atexit
import os
import sys
from types import ModuleType
from typing import Any

from stepscope import _kinds as k
from stepscope.hooks import exceptions, groups

_registered = False


def install(torch: Any, native: ModuleType) -> None:
    """``torch`` may be None: stepscope.init() comes before it is imported."""
    global _registered
    if _registered:
        return
    _registered = True
    owner = os.getpid()

    def at_exit() -> None:
        try:
            groups.release()
            native.set_hook("pg_map", None)  # the last reference to groups that the program never destroyed
        except Exception:
            pass
        if os.getpid() != owner or not native.active():
            return
        # A program that replaced sys.excepthook: the interpreter still keeps what was raised.
        value = getattr(sys, "last_value", None)
        if isinstance(value, BaseException):
            exceptions.record(type(value), value, True)
        native.mark(k.PROCESS, k.MARK, k.EXIT)
        native.set_life(k.LIFE_TEARDOWN)
        keep = native.evidence() or "RANK" in os.environ or isinstance(value, BaseException)
        native.close() if keep else native.discard()

    atexit.register(at_exit)

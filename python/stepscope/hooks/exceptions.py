"""Uncaught exceptions: type and first line, chained before the hook that was there."""

from __future__ import annotations

import sys
import threading
from types import ModuleType
from typing import Any

from stepscope import _kinds as k
from stepscope.hooks import names


_hooked = False
_last: list[BaseException] = []  # the exception already recorded as the end of the process


def describe(kind: type[BaseException], value: BaseException | None) -> str:
    """``"ValueError: first line"``, at most 400 characters. Never raises."""
    try:
        text = str(value) if value is not None else ""
    except Exception:
        text = ""
    line = text.strip().splitlines()[0] if text.strip() else ""
    return f"{kind.__name__}: {line}"[:400]


def record(kind: type[BaseException], value: BaseException | None, of_process: bool) -> None:
    """Writes the exception; ``of_process`` when it ends the process. Never raises."""
    try:
        from stepscope import _native as native

        if of_process and value is not None:
            if _last and _last[0] is value:
                return
            _last[:] = [value]
        if native.active() and kind is not SystemExit:
            text = describe(kind, value)
            ident = k.text_id(text)
            names.name(k.NAME_EXCEPTION, ident, text)
            native.mark(k.EXCEPTION, k.MARK, ident)
            if of_process:
                native.set_life(k.LIFE_EXCEPTION)
    except Exception:
        pass


def install(torch: Any, native: ModuleType) -> None:
    """``torch`` may be None: stepscope.init() comes before it is imported."""
    global _hooked
    if _hooked:
        return
    _hooked = True
    previous, previous_thread = sys.excepthook, threading.excepthook

    def excepthook(kind: type[BaseException], value: BaseException, trace: Any) -> Any:
        record(kind, value, True)
        return previous(kind, value, trace)

    def thread_excepthook(args: Any) -> Any:
        record(args.exc_type, args.exc_value, False)
        return previous_thread(args)

    sys.excepthook = excepthook
    threading.excepthook = thread_excepthook

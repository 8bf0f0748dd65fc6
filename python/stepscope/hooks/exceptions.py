"""Uncaught exceptions: type, first line and where they were raised, chained before the hook that was there."""

from __future__ import annotations

import sys
import threading
from types import ModuleType
from typing import Any

from stepscope import _kinds as k
from stepscope.hooks import names

_MOST_OF_THREADS = 8  # exceptions that end only a thread: the names region has room for these and the last one
_MOST_FRAMES = 12
_hooked = False
_of_threads = 0
_last: list[BaseException] = []  # the exception already recorded as the end of the process


def describe(kind: type[BaseException], value: BaseException | None) -> str:
    """``"ValueError: first line"``, at most 400 bytes. Never raises."""
    try:
        text = str(value) if value is not None else ""
    except Exception:
        text = ""
    line = text.strip().splitlines()[0] if text.strip() else ""
    return f"{kind.__name__}: {line}".encode(errors="replace")[:400].decode(errors="ignore")


def frames(value: BaseException | None) -> str:
    """Where it was raised: ``"12 load /path/train.py < 40 main /path/train.py"``, the innermost frame first, at most
    _MOST_FRAMES. Of a SyntaxError the line that does not parse. Never raises."""
    lines: list[str] = []
    try:
        trace = value.__traceback__ if value is not None else None
        while trace is not None:
            code = trace.tb_frame.f_code
            lines.append(f"{trace.tb_lineno} {code.co_name} {code.co_filename}")
            trace = trace.tb_next
        if isinstance(value, SyntaxError) and value.filename:
            lines.append(f"{value.lineno or 0} <module> {value.filename}")
    except Exception:
        pass
    return " < ".join(line[:300] for line in lines[: -_MOST_FRAMES - 1 : -1])


def record(kind: type[BaseException], value: BaseException | None, of_process: bool) -> None:
    """Writes the exception; ``of_process`` when it ends the process. Never raises."""
    global _of_threads
    try:
        from stepscope import _native as native

        if of_process and value is not None:
            if _last and _last[0] is value:
                return
            _last[:] = [value]
        if native.active() and kind is not SystemExit:
            text = describe(kind, value)
            ident = k.text_id(text)
            if of_process or _of_threads < _MOST_OF_THREADS:
                _of_threads += not of_process
                names.name(k.NAME_EXCEPTION, ident, text)
            if of_process:
                names.name(k.NAME_TRACEBACK, ident, frames(value))
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
    from stepscope import _native

    def before(args: Any, _kwargs: Any) -> None:
        record(args[0], args[1], True)

    def before_thread(args: Any, _kwargs: Any) -> None:
        record(args[0].exc_type, args[0].exc_value, False)

    # The dunder names, too: programs ask whether the hook is still Python's own.
    places: Any = ((sys, before), (threading, before_thread))
    for module, action in places:
        previous, default = module.excepthook, module.__excepthook__
        hook = _native.around(previous, action, None)
        if previous is default:
            module.__excepthook__ = hook
        module.excepthook = hook

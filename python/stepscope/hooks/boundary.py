"""What Python code of ours does between two steps, called by the C hooks only when there is something to do."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import ModuleType

from stepscope import _native as native

OPENED, GROUPS, COMPILE_LOST, REQUESTED, STAMPS, WORK_KEYS, CONTROL = (1 << i for i in range(7))
_actions: dict[int, list[Callable[[], None]]] = {}
_requests: list[Callable[[], None]] = []


def on(bit: int, action: Callable[[], None]) -> None:
    """Runs ``action()`` at each boundary for which ``bit`` is set."""
    _actions.setdefault(bit, []).append(action)


def request(action: Callable[[], None]) -> None:
    """Runs ``action()`` once, at the next boundary."""
    _requests.append(action)
    native.request_tick()


def tick(bits: int) -> None:
    """Entry for the C side."""
    for bit, actions in _actions.items():
        if bits & bit:
            for action in actions:
                _try(action)
    if bits & REQUESTED:
        due = list(_requests)
        _requests.clear()
        for action in due:
            _try(action)


def _try(action: Callable[[], None]) -> None:
    try:
        action()
    except Exception:
        pass


def _after_fork() -> None:
    from stepscope.hooks import loader_ids, names

    native.after_fork()
    names.after_fork()
    loader_ids.after_fork()


def install(torch: ModuleType, _native: ModuleType) -> None:
    from stepscope.hooks import opening

    on(OPENED, opening.opened)
    frame = getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None)
    native.set_hook("set_eval_frame", getattr(frame, "set_eval_frame", None))
    native.set_hook("tick", tick)
    os.register_at_fork(after_in_child=_after_fork)

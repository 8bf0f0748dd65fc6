"""Texts for the black box: kept until it is open, then written."""

from __future__ import annotations

import os
import platform
from types import ModuleType

from stepscope import _kinds as k
from stepscope import _native as native

_MOST = 512
_waiting: list[tuple[int, int, str]] = []
_said: set[tuple[int, int, str]] = set()


def name(kind: int, ident: int, text: str) -> None:
    """Gives an id its text, now or when the black box opens. Never raises."""
    if native.active():
        native.name(kind, ident, text)
    elif len(_waiting) < _MOST:
        _waiting.append((kind, ident, text))


def once(kind: int, ident: int, text: str) -> None:
    """As ``name``, but the same text is written once."""
    key = (kind, ident, text)
    if key not in _said:
        _said.add(key)
        name(kind, ident, text)


def unavailable(signal: str, reason: str) -> None:
    """Reports a signal that cannot be had, once per reason."""
    once(k.NAME_UNAVAILABLE, 0, f"{signal}: {reason}"[:500])


def fact(key: str, value: object) -> None:
    """Reports a fact about this process."""
    once(k.NAME_FACT, k.text_id(key), f"{key}={value}"[:500])


def facts(torch: ModuleType) -> None:
    """The versions and the set-up that a report shows."""
    fact("torch", torch.__version__)
    fact("python", platform.python_version())
    for variable in ("OMP_NUM_THREADS", "CUDA_DEVICE_MAX_CONNECTIONS", "LOCAL_WORLD_SIZE"):
        if variable in os.environ:
            fact(variable, os.environ[variable])


def flush() -> None:
    """Writes what has waited. Called when the black box has been opened."""
    while _waiting and native.active():
        native.name(*_waiting.pop(0))


def after_fork() -> None:
    """A child that opens a black box of its own starts with nothing said."""
    _waiting.clear()
    _said.clear()

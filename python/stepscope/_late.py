"""Runs a callback when a module has been imported: now if it is there, else right after its import.

One finder on ``sys.meta_path``, there only while something is pending; a look costs a dictionary lookup per import. The
callback runs before the importing statement goes on, so names that a parent package re-exports are already the patched
ones. A callback that fails is forgotten.
"""

from __future__ import annotations

import _thread
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

Callback = Callable[[ModuleType], None]
_pending: dict[str, list[Callback]] = {}
_executing: set[str] = set()  # by a loader that will call us at its end


def when_imported(name: str, callback: Callback) -> None:
    """Calls ``callback(module)`` once, now or after the import of ``name``. Errors of the callback are dropped."""
    module = sys.modules.get(name)
    if module is not None and name not in _executing and not _initializing(module):
        _run(callback, module)
        return
    _pending.setdefault(name, []).append(callback)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def _initializing(module: ModuleType) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


def _run(callback: Callback, module: ModuleType) -> None:
    try:
        callback(module)
    except Exception:
        pass


def _fire(module: ModuleType) -> None:
    for callback in _pending.pop(module.__name__, []):
        _run(callback, module)
    if not _pending and _finder in sys.meta_path:
        sys.meta_path.remove(_finder)


class _Finder:
    """Asks the other finders for the real spec and runs the callbacks after its loader has executed the module."""

    def __init__(self) -> None:
        self._asking: set[int] = set()  # threads in which the others are asked: some of them ask all finders in turn

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        thread = _thread.get_ident()
        if thread in self._asking:
            return None
        if name not in _pending:
            self._look()
            return None
        self._asking.add(thread)
        try:
            for finder in list(sys.meta_path):
                if finder is self or not hasattr(finder, "find_spec"):
                    continue
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    return _watched(spec)
        finally:
            self._asking.discard(thread)
        return None

    def _look(self) -> None:
        """Another import hook may have brought a module in past us."""
        for name in list(_pending):
            module = sys.modules.get(name)
            if module is not None and name not in _executing and not _initializing(module):
                _fire(module)


def _watched(spec: Any) -> Any:
    loader = spec.loader
    execute = getattr(loader, "exec_module", None)
    if execute is None:
        return spec

    def exec_module(module: ModuleType) -> None:
        try:
            del loader.exec_module  # the instance attribute: the loader is its own self again
        except AttributeError:
            pass
        _executing.add(module.__name__)
        try:
            execute(module)
        finally:
            _executing.discard(module.__name__)
        _fire(module)

    try:
        loader.exec_module = exec_module
    except AttributeError:
        pass
    return spec


_finder = _Finder()

"""Names of other tools, for scripts written for them: ``stepscope run --compat traceml script.py``.

``traceml`` and ``traceml_ai`` become two names of ``stepscope.compat.traceml``; an installed package of those names is
not imported. What a script asks for and stepscope does not measure is said once: in the summary's ``unavailable``, and in
one line on stderr where the script would otherwise wait for figures that never come.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_ALIASES = ("traceml", "traceml_ai")
_HOME = "stepscope.compat.traceml"
# Modules that moved between versions of TraceML: each name here is an older or other place of the second.
_MOVED = {
    "api": "",
    "traceml_decorator": "decorators",
    "hf_decorators": "integrations.huggingface",
    "utils.lightning": "integrations.lightning",
}
_said: set[str] = set()


class _AliasLoader:
    """Hands out a module that lives under its own name in ``stepscope.compat``."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self._home)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the import system has put the alias's there


def alias_spec(name: str) -> ModuleSpec | None:
    """The spec of ``traceml``, ``traceml_ai`` or a module below them; None where we have none of that name."""
    top, _, rest = name.partition(".")
    if top not in _ALIASES:
        return None
    rest = _MOVED.get(rest, rest)
    home = f"{_HOME}.{rest}" if rest else _HOME
    try:
        real = importlib.util.find_spec(home)
    except ImportError:
        return None
    if real is None:
        return None
    loader: Any = _AliasLoader(home)  # importlib.abc.Loader is a protocol here: its import costs more than all of this
    return ModuleSpec(name, loader, is_package=real.submodule_search_locations is not None)


def missing(what: str, reason: str, aloud: bool = False) -> None:
    """Says once that ``what`` cannot be had: in the summary and, with ``aloud``, in one line on stderr of the first
    rank of a node. Never raises."""
    if what in _said:
        return
    _said.add(what)
    try:
        from stepscope.hooks import names

        names.unavailable(what, reason)
    except Exception:
        pass  # no native part: there is no summary to say it in
    if aloud and os.environ.get("LOCAL_RANK", "0") == "0":
        try:
            print(f"stepscope: {what}: {reason}", file=sys.stderr, flush=True)
        except Exception:
            pass

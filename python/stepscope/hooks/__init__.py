"""The hooks into torch, one file per signal. ``install`` is called once, right after torch has been imported.

Each hook probes what it needs. Where something is missing, that signal is reported as unavailable with its reason and
the others go on. Nothing here raises into the user's program.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

# In this order: what tells how the process ended and who it is comes first.
SIGNALS = (
    "exceptions",
    "exit",
    "stacks",
    "boundary",
    "init_group",
    "rendezvous",
    "groups",
    "optimizer",
    "backward",
    "forward",
    "dataloader",
    "work_wait",
    "compile",
    "gc_pause",
    "save",
    "scheduler",
    "numerics",
    "device",
    "advice",
)
_GUARD = "_stepscope_installed"


def install(torch: ModuleType) -> bool:
    """Hooks torch. False when it was done before or the native part cannot be loaded. Never raises."""
    if getattr(sys, _GUARD, False):
        return False
    setattr(sys, _GUARD, True)
    try:
        from stepscope import _native as native
        from stepscope.hooks import names, opening

        opening.open_if_rank(native)
    except Exception:
        return False
    for signal in SIGNALS:
        try:
            module = import_module(f"stepscope.hooks.{signal}")
        except ModuleNotFoundError:
            continue
        except Exception as error:
            names.unavailable(signal, f"{type(error).__name__}: {error}")
            continue
        try:
            module.install(torch, native)
        except Exception as error:
            names.unavailable(signal, f"{type(error).__name__}: {error}")
    names.facts(torch)
    return True


def installed() -> bool:
    """True when ``install`` has run in this process."""
    return bool(getattr(sys, _GUARD, False))

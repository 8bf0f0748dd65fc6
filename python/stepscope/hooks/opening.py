"""When the black box is opened, and who this process is.

A process with RANK in its environment opens it when torch is imported, so that its start is seen; any other on evidence
(a process group, an optimizer step, a backward) or when it makes a DataLoader. Loader workers and children of a rank
never do. Being open says nothing: the agent shows a rank only on evidence.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType

from stepscope import _kinds as k
from stepscope import _native as native
from stepscope.hooks import names

_OWNER = "STEPSCOPE_OWNER"


def is_multiprocessing_child() -> bool:
    """True in spawned and forkserver children: loader workers look like this, but so do ranks started by mp.spawn."""
    return any("multiprocessing" in argument for argument in getattr(sys, "orig_argv", sys.argv)[1:4])


def open_if_rank(_native: ModuleType) -> None:
    """Opens provisionally where RANK is set, unless a rank is our parent and RANK was only inherited."""
    native.allow_open()
    if "RANK" not in os.environ or is_multiprocessing_child():
        return
    if os.environ.get(_OWNER, str(os.getpid())) != str(os.getpid()):
        return
    if open_now():
        native.mark(k.PROCESS, k.MARK, k.TORCH_IMPORTED)


def open_now() -> bool:
    """Opens the black box if this process may have one. True when it is open."""
    native.allow_open()
    if native.active():
        return True
    if not native.may_be_rank() or not os.environ.get("STEPSCOPE_SHM"):
        return False
    if not native.open():
        return False
    opened()
    return True


def opened() -> None:
    """What follows an opening, also one by a hook in C."""
    os.environ[_OWNER] = str(os.getpid())
    names.flush()


def environment_int(variable: str, default: int) -> int:
    """An integer of the environment, or ``default``."""
    try:
        return int(os.environ[variable])
    except (KeyError, ValueError):
        return default

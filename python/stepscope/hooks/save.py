"""Checkpoint saves: torch.save, torch.distributed.checkpoint, safetensors. Only the outermost call counts."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

from stepscope import _kinds as k
from stepscope import _native as native
from stepscope._late import when_imported
from stepscope.hooks._replace import replace_everywhere

_local = threading.local()


def size_of(target: Any) -> int:
    """Bytes of the file that was written, 0 when ``target`` is no path of a file."""
    try:
        return os.stat(target).st_size if isinstance(target, (str, os.PathLike)) and os.path.isfile(target) else 0
    except OSError:
        return 0


def saving(original: Callable[..., Any], api: int, target_at: int, target_name: str) -> Callable[..., Any]:
    """``original`` with a Save span around it. The file is argument ``target_at`` or keyword ``target_name``."""

    def before(_args: Any, _kwargs: Any) -> bool:
        if getattr(_local, "depth", 0) or not native.active():
            return False
        _local.depth = 1
        native.mark(k.SAVE, k.BEGIN, api)
        return True

    def after(outermost: bool, args: Any, kwargs: Any, _result: Any, _failed: bool) -> None:
        if not outermost:
            return
        _local.depth = 0
        target = args[target_at] if len(args) > target_at else kwargs.get(target_name)
        native.mark(k.SAVE, k.END, api, size_of(target))

    stand_in: Callable[..., Any] = native.around(original, before, after)
    return stand_in


def _wrap(module: ModuleType, name: str, api: int, target_at: int, target_name: str) -> None:
    original = getattr(module, name, None)
    if original is not None:
        wrapped = saving(original, api, target_at, target_name)
        replace_everywhere(original, wrapped, name, module.__name__.split(".")[0])
        setattr(module, name, wrapped)


def _wrap_checkpoint(module: ModuleType) -> None:
    for name in ("save", "async_save"):
        _wrap(module, name, k.SAVE_DISTRIBUTED, 1, "checkpoint_id")


def install(torch: ModuleType, _native: ModuleType) -> None:
    _wrap(torch, "save", k.SAVE_TORCH, 1, "f")
    when_imported("torch.distributed.checkpoint.state_dict_saver", _wrap_checkpoint)
    when_imported("safetensors.torch", lambda m: _wrap(m, "save_file", k.SAVE_SAFETENSORS, 1, "filename"))

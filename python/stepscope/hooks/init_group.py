"""init_process_group and destroy_process_group: start-up, identity, teardown."""

from __future__ import annotations

import functools
import os
from types import ModuleType
from typing import Any

from stepscope import _kinds as k
from stepscope import _native as native
from stepscope.hooks import groups, names, opening
from stepscope.hooks._replace import replace_everywhere


def _joined(torch: ModuleType) -> None:
    """The process group is there: this is a rank, and this is who it is."""
    dist = torch.distributed
    rank, world = dist.get_rank(), dist.get_world_size()
    env = opening.environment_int
    local = env("LOCAL_RANK", rank if world == env("LOCAL_WORLD_SIZE", world) else -1)
    native.set_identity(rank, local, world, env("GROUP_RANK", 0), env("TORCHELASTIC_RESTART_COUNT", 0))
    native.add_evidence(k.EVIDENCE_GROUP)
    names.fact("backend", dist.get_backend())
    groups.rescan()


def _wrap_init(torch: ModuleType, original: Any) -> Any:
    @functools.wraps(original)
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        try:
            opening.open_now()
            native.mark(k.INIT_GROUP, k.BEGIN)
        except Exception:
            pass
        try:
            return original(*args, **kwargs)
        finally:
            native.mark(k.INIT_GROUP, k.END)
            try:
                if torch.distributed.is_initialized():
                    _joined(torch)
            except Exception as error:
                names.unavailable("groups", f"{type(error).__name__}: {error}")

    return init_process_group


def _wrap_destroy(original: Any) -> Any:
    @functools.wraps(original)
    def destroy_process_group(group: Any = None) -> Any:
        whole = group is None or group is groups.world()
        if whole:
            native.mark(k.TEARDOWN, k.BEGIN)
            native.set_life(k.LIFE_TEARDOWN)
        try:
            groups.release(None if whole else group)
        except Exception:
            pass
        try:
            return original(group)
        finally:
            if whole:
                native.mark(k.TEARDOWN, k.END)

    return destroy_process_group


def install(torch: ModuleType, _native: ModuleType) -> None:
    if not torch.distributed.is_available():
        names.unavailable("groups", "this torch is built without torch.distributed")
        return
    c10d = torch.distributed.distributed_c10d
    for name, wrap in (("init_process_group", lambda f: _wrap_init(torch, f)), ("destroy_process_group", _wrap_destroy)):
        original = getattr(c10d, name)
        replace_everywhere(original, wrap(original), name)
    if "TORCHELASTIC_RUN_ID" in os.environ:
        names.fact("launcher", "torchrun")

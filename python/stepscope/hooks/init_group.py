"""init_process_group and destroy_process_group: start-up, identity, teardown."""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import Any

from stepscope import _kinds as k
from stepscope import _native as native
from stepscope.hooks import groups, names, opening
from stepscope.hooks._replace import replace_everywhere

_TIMEOUT = 2  # its place among the arguments of init_process_group


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
    _tell_timeout(torch)
    _meet_nodes(torch, dist.get_rank(), world)


def _meet_nodes(torch: ModuleType, rank: int, world: int) -> None:
    """Ranks on other nodes: their agents and ours are told of each other (nodes.py). One node: nothing at all."""
    if world == 1 or opening.environment_int("LOCAL_WORLD_SIZE", 0) == world or "STEPSCOPE_SHM" not in os.environ:
        return
    try:
        from stepscope.hooks import nodes

        if nodes.elsewhere(world):
            nodes.meet(torch, rank)
    except Exception as error:
        names.unavailable("nodes", f"{type(error).__name__}: {error}")


def _tell_timeout(torch: ModuleType) -> None:
    """Seconds after which a collective of the default group gives up: the watch over hangs counts towards it."""
    try:
        backend = groups.world()._get_backend(
            torch.device("cpu" if torch.distributed.get_backend() == "gloo" else "cuda")
        )
        names.fact("group_timeout_s", backend.options._timeout.total_seconds())
    except Exception:  # a backend without options: the watch then names no time
        pass


def _tell_timeout_of_call(c10d: Any, args: Any, kwargs: Any) -> None:
    """The same before the group is there: ranks wait for each other inside the call, and no longer than this."""
    try:
        backend = kwargs.get("backend", args[0] if args else None)
        timeout = kwargs.get("timeout", args[_TIMEOUT] if len(args) > _TIMEOUT else None)
        if timeout is None:
            timeout = c10d.default_pg_nccl_timeout if "nccl" in str(backend) else c10d.default_pg_timeout
        names.fact("group_timeout_s", timeout.total_seconds())
    except Exception:
        pass


def _wrap_init(torch: ModuleType, original: Any) -> Any:
    c10d = torch.distributed.distributed_c10d

    def before(args: Any, kwargs: Any) -> None:
        opening.open_now()
        _tell_timeout_of_call(c10d, args, kwargs)
        native.mark(k.INIT_GROUP, k.BEGIN)

    def after(_state: Any, _args: Any, _kwargs: Any, _result: Any, failed: bool) -> None:
        if failed:
            return  # it has not joined, and most likely raises its way out
        native.mark(k.INIT_GROUP, k.END)
        try:
            if torch.distributed.is_initialized():
                _joined(torch)
        except Exception as error:
            names.unavailable("groups", f"{type(error).__name__}: {error}")

    return native.around(original, before, after)


def _wrap_destroy(original: Any) -> Any:
    def before(args: Any, kwargs: Any) -> bool:
        group = args[0] if args else kwargs.get("group")
        whole = group is None or group is groups.world()
        if whole:
            native.mark(k.TEARDOWN, k.BEGIN)
            native.set_life(k.LIFE_TEARDOWN)
            if nodes := sys.modules.get("stepscope.hooks.nodes"):
                nodes.leave()
        try:
            groups.release(None if whole else group)
        except Exception:
            pass
        return whole

    def after(whole: bool, _args: Any, _kwargs: Any, _result: Any, _failed: bool) -> None:
        if whole:
            native.mark(k.TEARDOWN, k.END)

    return native.around(original, before, after)


def install(torch: ModuleType, _native: ModuleType) -> None:
    if not torch.distributed.is_available():
        names.unavailable("groups", "this torch is built without torch.distributed")
        return
    c10d = torch.distributed.distributed_c10d
    for name in ("init_process_group", "destroy_process_group"):
        original = getattr(c10d, name)
        stand_in = _wrap_init(torch, original) if name == "init_process_group" else _wrap_destroy(original)
        replace_everywhere(original, stand_in, name)
    if "TORCHELASTIC_RUN_ID" in os.environ:
        names.fact("launcher", "torchrun")

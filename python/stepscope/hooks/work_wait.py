"""Time blocked on collectives: ``Work.wait``, ``wait_tensor`` of the functional collectives, and functions of c10d that
wait in C++, all by C functions.

``_broadcast_coalesced`` is what DDP sends its buffers with before a forward (and its parameters once, as FSDP does); the
ranks check with ``_verify_params_across_processes`` that they have the same model. With torch before 2.14 nothing else
tells of either.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from stepscope import _kinds as k
from stepscope import _native as native
from stepscope._late import when_imported
from stepscope.hooks import groups, names
from stepscope.hooks._replace import replace_everywhere


def _wrap_wait_tensor(module: ModuleType) -> None:
    original = module.wait_tensor
    wrapped = native.wrap_wait_tensor(original)
    replace_everywhere(original, wrapped, "wait_tensor")
    module.wait_tensor = wrapped  # type: ignore[attr-defined]
    from stepscope.hooks import compile as compilation

    compilation.substitute(wrapped, original)


def _wrap_group_calls(torch: ModuleType) -> None:
    for name, wrap in (
        ("_broadcast_coalesced", native.wrap_broadcast),
        ("_verify_params_across_processes", native.wrap_all_gather),
    ):
        original = getattr(torch.distributed, name, None)
        if original is not None:
            replace_everywhere(original, wrap(original), name)


def _group_of(args: Any, kwargs: Any) -> Any:
    """The group that a barrier is called for."""
    group = args[0] if args else kwargs.get("group")
    return group if group is not None else groups.world()


def _wrap_monitored_barrier(c10d: ModuleType) -> None:
    """Blocks in C++ and passes no hook: a Wait span of its own, counted per process."""
    original = getattr(c10d, "monitored_barrier", None)
    if original is None:
        return
    numbers = itertools.count()

    def before(args: Any, kwargs: Any) -> tuple[int, int, int, int]:
        detail = (groups.known_id(_group_of(args, kwargs)), next(numbers), 0, k.MONITORED_BARRIER)
        native.mark(k.WAIT, k.BEGIN, *detail)
        return detail

    def after(detail: Any, _args: Any, _kwargs: Any, _result: Any, _failed: bool) -> None:
        if detail is not None:
            native.mark(k.WAIT, k.END, *detail)

    replace_everywhere(original, native.around(original, before, after), "monitored_barrier")


def _wrap_barrier(c10d: ModuleType) -> None:
    """torch before 2.14 tells of a wait alone; of this call it is known for which operation it waits."""
    original = c10d.barrier
    counts: dict[int, Iterator[int]] = {}

    def before(args: Any, kwargs: Any) -> bool:
        ident = groups.unhooked_id(_group_of(args, kwargs))
        if not ident:
            return False
        native.tell_issue(ident, next(counts.setdefault(ident, itertools.count())), k.BARRIER)
        return True

    def after(told: bool | None, _args: Any, _kwargs: Any, _result: Any, _failed: bool) -> None:
        if told:
            native.tell_issue(0, 0, 0)

    replace_everywhere(original, native.around(original, before, after), "barrier")


def install(torch: ModuleType, _native: ModuleType) -> None:
    if not torch.distributed.is_available():
        return
    native.wrap_work_wait(torch.distributed.Work)
    _wrap_group_calls(torch)
    _wrap_barrier(torch.distributed.distributed_c10d)
    _wrap_monitored_barrier(torch.distributed.distributed_c10d)
    if hasattr(torch.compiler, "substitute_in_graph"):
        when_imported("torch.distributed._functional_collectives", _wrap_wait_tensor)
    else:
        names.unavailable("wait_tensor", "torch before 2.5: waits of functional collectives are not seen")

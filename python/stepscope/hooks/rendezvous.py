"""Places where all ranks of the job meet before the first step: who comes late is waited for by the others.

A mark when DistributedDataParallel's constructor begins, which exchanges the model with all ranks: with torch before
2.14 no process-group hook tells of these operations.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from stepscope import _kinds as k
from stepscope import _native as native
from stepscope.hooks import groups

_PROCESS_GROUP = 7  # its place among the positional arguments, self included


def _of_all(args: Any, kwargs: Any) -> bool:
    group = kwargs.get("process_group", args[_PROCESS_GROUP] if len(args) > _PROCESS_GROUP else None)
    mesh = kwargs.get("device_mesh")
    return mesh is None and (group is None or group is groups.world())


def install(torch: ModuleType, _native: ModuleType) -> None:
    if not torch.distributed.is_available():
        return
    from torch.nn.parallel import distributed

    def before(args: Any, kwargs: Any) -> None:
        try:
            if _of_all(args, kwargs):
                native.mark(k.RENDEZVOUS, k.MARK, k.RENDEZVOUS_DDP)
        except Exception:  # a group of another make
            pass

    cls: Any = distributed.DistributedDataParallel
    cls.__init__ = native.around(cls.__init__, before, None)

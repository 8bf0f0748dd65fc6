"""LR schedulers: a mark each time one advances, to see one that runs ahead of the optimizer.

``step`` of the base class by a C function. Inside a compiled function it is taken out of the graph.
"""

from __future__ import annotations

from types import ModuleType


def install(torch: ModuleType, native: ModuleType) -> None:
    from torch.optim import lr_scheduler

    base = getattr(lr_scheduler, "LRScheduler", None) or lr_scheduler._LRScheduler
    from stepscope.hooks import compile as compilation

    original = base.step
    native.wrap_scheduler(base)
    if hasattr(torch.compiler, "substitute_in_graph"):
        compilation.substitute(base.__dict__["step"], original)

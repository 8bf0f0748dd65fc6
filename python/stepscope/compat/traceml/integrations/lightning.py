"""``traceml.integrations.lightning`` and ``traceml.utils.lightning``. Lightning is imported when the class is asked for."""

from __future__ import annotations

from typing import Any

from stepscope.compat.traceml._init import TraceMLInitConfig
from stepscope.compat.traceml._init import init as _init


def init(*args: Any, **kwargs: Any) -> TraceMLInitConfig:
    """As ``traceml.init`` in the selective mode."""
    return _init(mode="selective", patch_dataloader=True, patch_h2d=True)


def __getattr__(name: str) -> Any:
    if name != "TraceMLCallback":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from stepscope.integrations.lightning import StepscopeCallback

    class TraceMLCallback(StepscopeCallback):
        """Names epoch, step, loss and learning rate. A step is an optimizer step: micro-batches are folded into it."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__()

    globals()[name] = TraceMLCallback
    return TraceMLCallback

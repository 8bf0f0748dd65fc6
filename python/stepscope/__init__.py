"""stepscope: an always-on, step-aligned, rank-aware observer for PyTorch training.

``stepscope run -- <your launch command>`` needs no code at all. These names make step boundaries exact and add what only
the program knows::

    import stepscope

    for batch in loader:
        with stepscope.trace_step(model):
            ...
            stepscope.log(loss=loss.item(), tokens=batch.numel())

``stepscope.Run("logs/<run>")`` opens what a run left behind, as tables for pandas, polars and duckdb.

Importing this package is cheap: it does not import torch. Every call does nothing (and costs well under a microsecond)
when the process is not observed. Nothing here raises for a reason of its own, but for ``Run``: a file that cannot be
read is a ``RunError``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from stepscope._api import init, log, trace_phase, trace_step
    from stepscope._live import live
    from stepscope._run import Run, RunError
    from stepscope._summary import final_summary, summary
    from stepscope._wrappers import wrap_backward, wrap_dataloader_fetch, wrap_forward, wrap_h2d, wrap_optimizer

_HOME = {
    "Run": "_run",
    "RunError": "_run",
    "init": "_api",
    "live": "_live",
    "log": "_api",
    "trace_phase": "_api",
    "trace_step": "_api",
    "final_summary": "_summary",
    "summary": "_summary",
    "wrap_backward": "_wrappers",
    "wrap_dataloader_fetch": "_wrappers",
    "wrap_forward": "_wrappers",
    "wrap_h2d": "_wrappers",
    "wrap_optimizer": "_wrappers",
}

__all__ = [
    "Run",
    "RunError",
    "__version__",
    "final_summary",
    "init",
    "live",
    "log",
    "summary",
    "trace_phase",
    "trace_step",
    "wrap_backward",
    "wrap_dataloader_fetch",
    "wrap_forward",
    "wrap_h2d",
    "wrap_optimizer",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'stepscope' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"stepscope.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_HOME))

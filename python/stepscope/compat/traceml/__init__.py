"""``import traceml`` / ``import traceml_ai`` under ``stepscope run --compat traceml``.

The public names of TraceML, served by stepscope: init, start, trace_step, wrap_*, summary, final_summary, and the older
decorators. Phases are seen without any of them; ``trace_step`` makes step boundaries exact. Nothing here raises for a
reason of its own. A step is an optimizer step: a ``trace_step`` block in which none happened joins the next one.
"""

from __future__ import annotations

from stepscope import __version__
from stepscope import trace_step as trace_step
from stepscope import wrap_backward as wrap_backward
from stepscope import wrap_dataloader_fetch as wrap_dataloader_fetch
from stepscope import wrap_forward as wrap_forward
from stepscope import wrap_h2d as wrap_h2d
from stepscope import wrap_optimizer as wrap_optimizer
from stepscope.compat.traceml._init import TraceMLInitConfig as TraceMLInitConfig
from stepscope.compat.traceml._init import init as init
from stepscope.compat.traceml._init import start as start
from stepscope.compat.traceml._layers import trace_model_instance as trace_model_instance
from stepscope.compat.traceml._summaries import final_summary as final_summary
from stepscope.compat.traceml._summaries import summary as summary

__all__ = [
    "__version__",
    "final_summary",
    "init",
    "start",
    "summary",
    "trace_step",
    "wrap_backward",
    "wrap_dataloader_fetch",
    "wrap_forward",
    "wrap_h2d",
    "wrap_optimizer",
]

"""Ray Train under ``stepscope run -- python train_ray.py``.

Workers of a cluster that the script starts itself (``ray.init()``) inherit what they need and are observed as they are.
For a cluster that runs already on this node, hand them the environment: ``ray.init(runtime_env=runtime_env())``. Nodes
without an agent of their own are not observed. Nothing here imports ray.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

_VARIABLES = ("STEPSCOPE_SHM", "STEPSCOPE_RUN_DIR", "STEPSCOPE_NONCE", "STEPSCOPE_COMPAT", "PYTHONPATH")


def runtime_env(**more: Any) -> dict[str, Any]:
    """The ``runtime_env`` for ``ray.init``, with ``more`` merged in. Without a launcher only ``more``."""
    found = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
    if "STEPSCOPE_SHM" not in found:
        return dict(more)
    return {**more, "env_vars": {**found, **more.get("env_vars", {})}}


def observed_loop(loop: Callable[..., Any]) -> Callable[..., Any]:
    """The ``train_loop_per_worker`` with ``stepscope.init()`` before it, so that a worker is a rank from its first line."""

    @functools.wraps(loop)
    def started(*args: Any, **kwargs: Any) -> Any:
        import stepscope

        stepscope.init()
        return loop(*args, **kwargs)

    return started


def log(metrics: dict[str, Any]) -> None:
    """What you also give to ``ray.train.report``: numbers among ``metrics`` go to the steps."""
    from stepscope.integrations._values import log as log_numbers

    log_numbers(**{str(name): value for name, value in metrics.items()})

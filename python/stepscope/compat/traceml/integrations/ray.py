"""``traceml.integrations.ray``. Ray is imported when the trainer is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stepscope.compat import missing


@dataclass
class TraceMLRayConfig:
    """Accepted for the script's sake; the launcher's options decide (``stepscope run --help``)."""

    mode: str = "summary"
    profile: str = "run"
    init_mode: str = "auto"
    patch_dataloader: bool | None = None
    patch_forward: bool | None = None
    patch_backward: bool | None = None
    patch_h2d: bool | None = None
    logs_dir: str | None = None
    session_id: str | None = None
    sampler_interval_sec: float | None = None
    summary_window_rows: int | None = None
    bind_host: str = "0.0.0.0"
    port: int = 0
    stop_timeout_sec: float = 5.0


class TraceMLTorchTrainer:
    """Makes Ray's ``TorchTrainer`` of the same arguments; its workers are observed as they are started."""

    def __new__(cls, *args: Any, traceml_config: TraceMLRayConfig | None = None, **kwargs: Any) -> Any:
        from ray.train.torch import TorchTrainer

        from stepscope.integrations.ray import observed_loop

        for argument in ("logs_dir", "session_id", "sampler_interval_sec"):
            if traceml_config is not None and getattr(traceml_config, argument, None) is not None:
                missing(f"TraceMLRayConfig({argument}=…)", "the launcher decides")
        if args:
            return TorchTrainer(observed_loop(args[0]), *args[1:], **kwargs)
        loop = kwargs.pop("train_loop_per_worker")
        return TorchTrainer(observed_loop(loop), **kwargs)

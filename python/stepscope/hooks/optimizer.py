"""Optimizer steps: global pre and post hooks, and GradScaler.step for steps that are skipped after an overflow.

C functions only: a Python global hook is traced by ``torch.compile(optimizer.step)`` and can raise in the user's program.
"""

from __future__ import annotations

from types import ModuleType

from stepscope.hooks import names


def install(torch: ModuleType, native: ModuleType) -> None:
    from torch.optim import optimizer

    optimizer.register_optimizer_step_pre_hook(native.optimizer_pre)
    optimizer.register_optimizer_step_post_hook(native.optimizer_post)
    try:
        from torch.amp.grad_scaler import GradScaler
    except ImportError:
        from torch.cuda.amp.grad_scaler import GradScaler  # type: ignore[assignment]
    try:
        native.wrap_scaler(GradScaler)
    except Exception as error:
        names.unavailable("grad_scaler", f"{type(error).__name__}: {error}")

"""trace_model_instance, trace_model: figures per layer, which stepscope does not take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepscope.compat import missing


def say_no_layers(who: str) -> None:
    """One line, once: activations, gradients and times per layer are not measured."""
    missing(
        "per-layer figures",
        f"{who}: activations, gradients and times per layer are not measured; steps, phases and memory are",
        aloud=True,
    )


def trace_model_instance(model: Any = None, *args: Any, **kwargs: Any) -> None:
    """Says once that figures per layer are not measured. The model is observed without it."""
    say_no_layers("trace_model_instance")


def trace_model(*args: Any, **kwargs: Any) -> Callable[[type], type]:
    """A class decorator that leaves the class as it is; says once that figures per layer are not measured."""
    say_no_layers("trace_model")
    return lambda cls: cls

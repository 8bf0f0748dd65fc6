"""``traceml.integrations.huggingface`` and ``traceml.hf_decorators``. transformers is imported when a class is asked for."""

from __future__ import annotations

from typing import Any

from stepscope.compat.traceml._init import TraceMLInitConfig
from stepscope.compat.traceml._init import init as _init
from stepscope.compat.traceml._layers import say_no_layers


def init(*args: Any, **kwargs: Any) -> TraceMLInitConfig:
    """As ``traceml.init``."""
    return _init(**kwargs)


def _callback() -> type:
    from stepscope.integrations.huggingface import StepscopeCallback

    class TraceMLTrainerCallback(StepscopeCallback):
        """Names epoch, step, loss and learning rate. A step is an optimizer step, as stepscope sees it by itself."""

        def __init__(self, traceml_kwargs: dict[str, Any] | None = None) -> None:
            super().__init__()
            if traceml_kwargs:
                say_no_layers("TraceMLTrainerCallback(traceml_kwargs)")

    return TraceMLTrainerCallback


def _trainer() -> type:
    from transformers import Trainer

    callback = __getattr__("TraceMLTrainerCallback")

    class TraceMLTrainer(Trainer):
        """The Trainer, with the callback added unless ``traceml_enabled`` is false."""

        def __init__(
            self, *args: Any, traceml_enabled: bool = True, traceml_kwargs: dict[str, Any] | None = None, **kwargs: Any
        ) -> None:
            super().__init__(*args, **kwargs)
            self.traceml_enabled = traceml_enabled
            if traceml_enabled:
                self.add_callback(callback(traceml_kwargs))

    return TraceMLTrainer


_MAKERS = {"TraceMLTrainerCallback": _callback, "TraceMLTrainer": _trainer}


def __getattr__(name: str) -> Any:
    maker = _MAKERS.get(name)
    if maker is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = maker()
    return value

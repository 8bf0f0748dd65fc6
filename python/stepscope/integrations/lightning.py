"""``stepscope.integrations.lightning.StepscopeCallback``: for ``Trainer(callbacks=[...])`` of ``lightning`` and of
``pytorch_lightning``.

Adds epoch, global step, loss and learning rate to the steps, and names validation, test and the sanity check. Lightning
is imported when the class is asked for; ImportError where neither package is installed.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from stepscope.integrations._values import OpenPhase, log

_PACKAGES = ("lightning.pytorch", "pytorch_lightning")


def _bases() -> tuple[type, ...]:
    """The callback classes of the packages that the program has imported, else of the first that is installed."""
    imported = [name for name in _PACKAGES if name in sys.modules]
    for name in () if imported else _PACKAGES:
        try:
            import_module(name)
        except ImportError:
            continue
        imported = [name]
        break
    if not imported:
        raise ImportError("stepscope.integrations.lightning needs lightning or pytorch_lightning")
    return tuple(dict.fromkeys(sys.modules[name].Callback for name in imported))


def _make() -> type:
    class StepscopeCallback(*_bases()):  # type: ignore[misc]
        """Only names; steps and phases are seen without it. A step is an optimizer step."""

        def __init__(self) -> None:
            super().__init__()
            self._phase = OpenPhase()
            self._step = 0

        def on_train_start(self, trainer: Any, module: Any) -> None:
            self._step = trainer.global_step  # a resumed run does not begin at 0

        def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, *rest: Any, **kwargs: Any) -> None:
            loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
            log(loss=loss)
            if trainer.global_step == self._step:
                return  # a micro-batch
            self._step = trainer.global_step
            log(epoch=trainer.current_epoch, global_step=self._step, lr=_rate(trainer))

        def on_sanity_check_start(self, trainer: Any, module: Any) -> None:
            self._phase.begin("validation")

        def on_sanity_check_end(self, trainer: Any, module: Any) -> None:
            self._phase.end()

        def on_validation_start(self, trainer: Any, module: Any) -> None:
            if not self._phase.name:
                self._phase.begin("validation")

        def on_validation_end(self, trainer: Any, module: Any) -> None:
            if not getattr(trainer, "sanity_checking", False):
                self._phase.end("validation")

        def on_test_start(self, trainer: Any, module: Any) -> None:
            self._phase.begin("test")

        def on_test_end(self, trainer: Any, module: Any) -> None:
            self._phase.end("test")

        def on_exception(self, trainer: Any, module: Any, exception: BaseException) -> None:
            self._phase.end()

    return StepscopeCallback


def _rate(trainer: Any) -> Any:
    try:
        return trainer.optimizers[0].param_groups[0]["lr"]
    except (AttributeError, IndexError, KeyError, TypeError):
        return None


def __getattr__(name: str) -> Any:
    if name != "StepscopeCallback":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = _make()
    return value

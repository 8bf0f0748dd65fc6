"""``stepscope.integrations.huggingface.StepscopeCallback``: for ``transformers.Trainer(callbacks=[...])``.

Adds epoch, global step, loss, learning rate and gradient norm to the steps, and names evaluation and checkpoints.
transformers is imported when the class is asked for; ImportError where it is not installed.
"""

from __future__ import annotations

from typing import Any

from stepscope.integrations._values import OpenPhase, log


def _make() -> type:
    from transformers import TrainerCallback

    class StepscopeCallback(TrainerCallback):
        """The Trainer tells when an evaluation or a save has ended, not when it begins: it begins where the Trainer's
        own decision (``control``) says that it comes next."""

        def __init__(self) -> None:
            self._phase = OpenPhase()
            self._evaluating = False

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            log(epoch=state.epoch, global_step=state.global_step)
            self._next(control)

        def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self._next(control)

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
            logs = logs or {}
            log(loss=logs.get("loss"), lr=logs.get("learning_rate"), grad_norm=logs.get("grad_norm"))
            if not self._evaluating:
                self._next(control)

        def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self._done("validation")
            self._next(control)

        def on_predict(self, args: Any, state: Any, control: Any, *rest: Any, **kwargs: Any) -> None:
            self._done("validation")

        def on_prediction_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if not self._evaluating:  # evaluate() called by the user
                self._begin("validation")

        def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self._done("checkpoint")

        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self._done()

        def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self._done()

        def _next(self, control: Any) -> None:
            """What the Trainer does next: it logs, then evaluates, then saves."""
            if control.should_log:
                return
            if control.should_evaluate:
                self._begin("validation")
            elif control.should_save:
                self._begin("checkpoint")

        def _begin(self, name: str) -> None:
            self._evaluating = name == "validation"
            if self._phase.name != name:
                self._phase.begin(name)

        def _done(self, name: str | None = None) -> None:
            self._evaluating = False
            self._phase.end(name)

    return StepscopeCallback


def __getattr__(name: str) -> Any:
    if name != "StepscopeCallback":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = _make()
    return value

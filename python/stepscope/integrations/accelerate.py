"""``stepscope.integrations.accelerate.StepscopeTracker``: for ``Accelerator(log_with=StepscopeTracker())``.

What ``accelerator.log({...}, step=…)`` is given goes to the steps: loss, learning rate, epoch, and names of your own.
accelerate is imported when the class is asked for; ImportError where it is not installed.
"""

from __future__ import annotations

from typing import Any

from stepscope.integrations._values import log

_NAMES = {"train_loss": "loss", "train/loss": "loss", "learning_rate": "lr", "train/lr": "lr"}


def _make() -> type:
    from accelerate.tracking import GeneralTracker

    class StepscopeTracker(GeneralTracker):
        """A tracker that keeps no files: stepscope's agent does."""

        name = "stepscope"
        requires_logging_directory = False
        main_process_only = False  # each rank has a black box of its own

        def __init__(self, run_name: str = "stepscope", **kwargs: Any) -> None:
            super().__init__()
            self.run_name = run_name

        @property
        def tracker(self) -> Any:
            return self

        def store_init_configuration(self, values: dict[str, Any]) -> None:
            """Not kept: the command line is in the summary."""

        def log(self, values: dict[str, Any], step: int | None = None, **kwargs: Any) -> None:
            log(global_step=step, **{_NAMES.get(str(name), str(name)): value for name, value in values.items()})

    return StepscopeTracker


def __getattr__(name: str) -> Any:
    if name != "StepscopeTracker":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = _make()
    return value

"""What frameworks hand to their callbacks, reduced to numbers that cost nothing to read."""

from __future__ import annotations

from typing import Any

import stepscope


def number(value: Any) -> float | None:
    """``value`` as a float; None for what is no number and for tensors on a device, whose reading would wait for it."""
    if value is None or isinstance(value, (bool, str)):
        return None
    if getattr(getattr(value, "device", None), "type", "cpu") != "cpu":
        return None
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError):
        return None


def log(**values: Any) -> None:
    """``stepscope.log`` of those values that are numbers. Never raises."""
    numbers = {name: n for name, value in values.items() if (n := number(value)) is not None}
    if numbers:
        stepscope.log(**numbers)


class OpenPhase:
    """A phase whose begin and end are told by different callbacks. One at a time; an end without a begin is nothing."""

    def __init__(self) -> None:
        self._name = ""
        self._span: Any = None

    @property
    def name(self) -> str:
        """The open phase, "" when there is none."""
        return self._name

    def begin(self, name: str) -> None:
        """Opens ``name``; one that is open is ended first, since an exception may have skipped its end."""
        self.end()
        self._name, self._span = name, stepscope.trace_phase(name)
        self._span.__enter__()

    def end(self, name: str | None = None) -> None:
        """Ends the open phase, or only if it is ``name``."""
        if self._span is None or (name is not None and name != self._name):
            return
        span, self._name, self._span = self._span, "", None
        span.__exit__(None, None, None)

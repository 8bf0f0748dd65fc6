"""Numbers for loaders. Programs make loaders anew all the time, mostly one per epoch: a new one that takes the place of
one that is gone gets its number, so that the reader sees one loader that is started over, and its name is written once.

It takes the place of one that is gone when it is described alike, is used on the same line of the program, and serves
the same data: the same object, or one that replaces data that is gone, too. Where several are free, the one first made.
"""

from __future__ import annotations

import itertools
import sys
import weakref
from types import FrameType
from typing import Any

_LIBRARIES = ("/site-packages/", "/dist-packages/", "/torch/", "/stepscope/hooks/")
_ids = itertools.count(1)


class _Place:
    """A number, who has it, and the data it serves."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.owner: weakref.ref[Any] | None = None
        self.data: weakref.ref[Any] | None = None

    def free_for(self, data: Any) -> bool:
        if self.owner is None or self.owner() is not None:
            return False
        served = self.data() if self.data is not None else None
        return served is None or served is data

    def taken_by(self, owner: Any, data: Any) -> int:
        self.owner, self.data = _reference(owner), _reference(data)
        return self.number


_places: dict[tuple[str, str], list[_Place]] = {}


def _reference(thing: Any) -> weakref.ref[Any] | None:
    try:
        return weakref.ref(thing)
    except TypeError:  # a list: nobody knows whether it lives on
        return None


def line_of_use() -> str:
    """``"/home/x/train.py:40"``: the nearest line of the program itself that leads here, "" when there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if not any(part in path for part in _LIBRARIES):
            return f"{path}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def number_for(owner: Any, description: str, data: Any = None) -> tuple[int, bool]:
    """The number of a loader that is seen for the first time, and whether the number is new."""
    kind = (description, line_of_use())
    places = _places.setdefault(kind, [])
    for place in places:
        if place.free_for(data):
            return place.taken_by(owner, data), False
    place = _Place(next(_ids))
    places.append(place)
    return place.taken_by(owner, data), True


def after_fork() -> None:
    """A child that opens a black box of its own starts with nothing said."""
    _places.clear()

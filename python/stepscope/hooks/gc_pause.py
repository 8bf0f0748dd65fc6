"""Garbage collection pauses: a C function in ``gc.callbacks``."""

from __future__ import annotations

import gc
from types import ModuleType


def install(torch: ModuleType, native: ModuleType) -> None:
    gc.callbacks.append(native.gc_callback)

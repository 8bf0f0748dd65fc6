"""Device memory: figures of torch's allocator are read by the native side at step marks (python_gpu.cc); here is what is
left of it: the report of an allocation that failed. Peak statistics are never reset: they are the user's.
"""

from __future__ import annotations

import time
from types import ModuleType
from typing import Any

from stepscope import _native as native
from stepscope.hooks import names

_MOST_SNAPSHOTS = 3  # a snapshot of a large heap takes long, and a program may try smaller batches in a loop
_SAME_S = 0.2  # torch may report one failure twice


def largest_free_block(segments: list[dict[str, Any]]) -> int:
    """The largest block in bytes that torch holds and nobody uses, in a list of the allocator's segments."""
    return max(
        (block["size"] for segment in segments for block in segment["blocks"] if block["state"] == "inactive"),
        default=0,
    )


class Observer:
    """Called by torch's allocator when it gives up: ``observer(device, requested, capacity, free)``, all bytes."""

    def __init__(self, torch: ModuleType) -> None:
        self._torch = torch
        self._snapshots = 0
        self._last: tuple[int, float] = (-1, 0.0)

    def __call__(self, device: int, requested: int, capacity: int, free: int) -> None:
        try:
            now = time.monotonic()
            if self._last[0] == requested and now - self._last[1] < _SAME_S:
                return
            self._last = (requested, now)
            self._record(device, requested, capacity, free)
        except Exception:
            pass

    def _record(self, device: int, requested: int, capacity: int, free: int) -> None:
        stats = self._torch._C._cuda_memoryStats(device)
        largest = 0
        if self._snapshots < _MOST_SNAPSHOTS:
            self._snapshots += 1
            segments = self._torch.cuda.memory_snapshot()
            largest = largest_free_block([s for s in segments if s.get("device", device) == device])
        allocated, reserved, inactive = (
            stats[key]["all"]["current"] for key in ("allocated_bytes", "reserved_bytes", "inactive_split_bytes")
        )
        native.gpu_out_of_memory(requested, capacity, free, allocated, reserved, inactive, largest)


def start(torch: ModuleType, _device: int) -> None:
    """Attaches the observer. CUDA is in use by now, so this initialises nothing."""
    attach = getattr(torch._C, "_cuda_attach_out_of_memory_observer", None)
    if attach is None:
        names.unavailable("out of memory", "torch has no observer for it")
        return
    attach(Observer(torch))

"""What a DataLoader worker process does first: it writes its fetches into the ring of the rank that started it."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

from stepscope import _kinds as k


class WorkerEntry:
    """Stands in for torch's ``_worker_loop`` as the target of worker processes. Picklable, for spawn and forkserver."""

    def __init__(self, ring: str, loader: int, module: str, original: Callable[..., Any] | None = None) -> None:
        self.ring, self.loader, self.module, self.original = ring, loader, module, original

    def __reduce__(self) -> tuple[Any, ...]:
        return WorkerEntry, (self.ring, self.loader, self.module)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        loop = self.original or importlib.import_module(self.module)._worker_loop
        try:
            self._adopt()
        except Exception:
            pass
        return loop(*args, **kwargs)

    def _adopt(self) -> None:
        from stepscope import _native as native

        if native.become_worker(self.ring):
            from torch.utils.data._utils import fetch

            for cls in (fetch._MapDatasetFetcher, fetch._IterableDatasetFetcher):
                setattr(cls, "fetch", _marked_fetch(cls.fetch, self.loader))  # noqa: B010


def _marked_fetch(original: Callable[..., Any], loader: int) -> Callable[..., Any]:
    from torch.utils.data import get_worker_info

    from stepscope import _native as native

    mark = native.worker_mark

    def before(args: Any, _kwargs: Any) -> tuple[int, int]:
        info = get_worker_info()
        index = args[1]
        worker, items = info.id if info is not None else 0, len(index) if isinstance(index, (list, tuple)) else 1
        mark(k.BEGIN, worker, loader, items)
        return worker, items

    def after(state: Any, _args: Any, _kwargs: Any, _result: Any, _failed: bool) -> None:
        if state is not None:
            mark(k.END, state[0], loader, state[1])

    stand_in: Callable[..., Any] = native.around(original, before, after)
    return stand_in


def can_be_spawned(method: str | None) -> bool:
    """True when a child of that start method is sure to find this module: forked ones have it, others must import it."""
    if method is None:
        import multiprocessing

        method = multiprocessing.get_start_method()
    if method == "fork":
        return True
    folder = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    if any(os.path.abspath(p or ".") == folder for p in sys.path):
        return True
    inject = os.path.join(folder, "stepscope", "_inject")
    return inject in os.environ.get("PYTHONPATH", "").split(os.pathsep)

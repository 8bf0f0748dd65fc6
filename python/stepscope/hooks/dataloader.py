"""DataLoader: waiting for a batch (``_BaseDataLoaderIter.__next__``, which all iterators inherit), making an iterator, ending
its workers, and the fetches inside worker processes.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from stepscope import _kinds as k
from stepscope import _native as native
from stepscope._late import when_imported
from stepscope.hooks import advice, loader_ids, names, opening
from stepscope.hooks.worker import WorkerEntry, can_be_spawned

_MARK = "_stepscope_loader"


def loader_id(loader: Any) -> int:
    """A small number for a loader object, the same as long as it lives. A copy of a loader gets its own; a loader that
    takes the place of one that is gone gets that one's."""
    known = loader.__dict__.get(_MARK)
    if known is not None and known[0] == id(loader):
        return int(known[1])
    text = describe(loader)
    number, new = loader_ids.number_for(loader, text, getattr(loader, "dataset", None))
    loader.__dict__[_MARK] = (id(loader), number)
    if new:
        names.name(k.NAME_LOADER, number, text)
    return number


def describe(loader: Any) -> str:
    """``"DataLoader(workers=4,batch=16,pin=0,persistent=0,dataset=Toy)"``; what cannot be read is left out."""
    parts = [
        ("workers", getattr(loader, "num_workers", None)),
        ("batch", batch_size(loader)),
        ("pin", _flag(loader, "pin_memory")),
        ("persistent", _flag(loader, "persistent_workers")),
        ("prefetch", getattr(loader, "prefetch_factor", None)),
        ("dataset", type(getattr(loader, "dataset", None)).__name__),
        ("sampler", type(getattr(loader, "sampler", None)).__name__),
    ]
    return f"{type(loader).__name__}({','.join(f'{key}={value}' for key, value in parts if value is not None)})"


def _flag(loader: Any, attribute: str) -> int | None:
    value = getattr(loader, attribute, None)
    return None if value is None else int(bool(value))


def batch_size(loader: Any) -> int:
    """Samples per batch as far as the loader knows, else 0."""
    size = getattr(loader, "batch_size", None)
    if size is None:
        size = getattr(getattr(loader, "batch_sampler", None), "batch_size", None)
    return size if isinstance(size, int) and size > 0 else 0


def _new_loader(iterator: Any) -> int:
    """An id for an iterator that no wrapped ``__iter__`` has made."""
    text = f"{type(iterator).__name__}(workers={getattr(iterator, '_num_workers', 0)})"
    number, new = loader_ids.number_for(iterator, text)
    setattr(iterator, _MARK, number)
    if new:
        names.name(k.NAME_LOADER, number, text)
    return number


def _begin_workers(modules: list[Any], loader: Any, number: int) -> list[tuple[Any, Any]]:
    """While an iterator is made, its worker processes start in our entry, which knows the ring and the loader. Returns
    what _end_workers puts back."""
    context = getattr(loader, "multiprocessing_context", None)
    method = context.get_start_method() if context is not None else None
    path = native.path() if native.active() else ""
    if not path or not getattr(loader, "num_workers", 0) or not can_be_spawned(method):
        return []
    originals = []
    for module in modules:
        original = module._worker_loop
        if isinstance(original, WorkerEntry):  # another thread makes an iterator, too
            original = original.original
        originals.append((module, original))
        module._worker_loop = WorkerEntry(path, number, module.__name__, original)
    return originals


def _end_workers(originals: list[tuple[Any, Any]]) -> None:
    for module, original in originals:
        module._worker_loop = original


def _wrap_iter(cls: Any, worker_modules: list[Any]) -> None:
    def before(args: Any, _kwargs: Any) -> tuple[int, int, int, list[tuple[Any, Any]]]:
        loader = args[0]
        opening.open_now()
        number = loader_id(loader)
        workers, batch = int(loader.num_workers), batch_size(loader)
        try:
            advice.iterating(loader, number)
        except Exception:
            pass
        native.mark(k.LOADER_CREATE, k.BEGIN, number, workers, batch)
        return number, workers, batch, _begin_workers(worker_modules, loader, number)

    def after(state: Any, _args: Any, _kwargs: Any, iterator: Any, failed: bool) -> None:
        if state is None:
            return
        number, workers, batch, originals = state
        _end_workers(originals)
        native.mark(k.LOADER_CREATE, k.END, number, workers, batch)
        if not failed and hasattr(iterator, "_num_workers"):
            setattr(iterator, _MARK, number)

    cls.__iter__ = native.around(cls.__iter__, before, after)


def _wrap_shutdown(cls: Any) -> None:
    """Ending an iterator's workers takes tens of milliseconds, mostly when the last reference to it goes."""
    mark, kind, begin, end, known = (
        native.mark,
        k.LOADER_END,
        k.BEGIN,
        k.END,
        _MARK,
    )  # globals may be gone when an iterator dies at exit

    def before(args: Any, _kwargs: Any) -> int | None:
        if getattr(args[0], "_shutdown", True):
            return None
        number = getattr(args[0], known, 0)
        mark(kind, begin, number)
        return int(number)

    def after(number: int | None, _args: Any, _kwargs: Any, _result: Any, _failed: bool) -> None:
        if number is not None:
            mark(kind, end, number)

    cls._shutdown_workers = native.around(cls._shutdown_workers, before, after)


def _wrap_stateful(module: ModuleType) -> None:
    import torchdata.stateful_dataloader.worker as worker  # type: ignore[import-not-found]

    if "__iter__" in module.StatefulDataLoader.__dict__:
        _wrap_iter(module.StatefulDataLoader, [worker])


def install(torch: ModuleType, _native: ModuleType) -> None:
    from torch.utils.data import dataloader
    from torch.utils.data._utils import worker

    native.set_hook("tensor_type", torch.Tensor)
    native.set_hook("int64", torch.int64)
    native.wrap_loader_next(dataloader._BaseDataLoaderIter, _new_loader)
    _wrap_iter(dataloader.DataLoader, [worker])
    if hasattr(dataloader._MultiProcessingDataLoaderIter, "_shutdown_workers"):
        _wrap_shutdown(dataloader._MultiProcessingDataLoaderIter)
    when_imported("torchdata.stateful_dataloader.stateful_dataloader", _wrap_stateful)

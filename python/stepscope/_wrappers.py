"""wrap_*: phases of loops whose parts torch does not announce (own loaders, own engines, other optimizers).

What stepscope's hooks see already is given back as it is, so that nothing is counted twice.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from stepscope import _api
from stepscope import _kinds as k

native = _api.native

T = TypeVar("T")
_FETCH_STOP, _FETCH_ERROR = 1, 2


def _prepare() -> None:
    if not _api._ready:
        _api._prepare()


class _Proxy:
    """Everything of ``inner``, but for what a subclass replaces."""

    def __init__(self, inner: Any) -> None:
        object.__setattr__(self, "_inner", inner)

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_inner"), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(object.__getattribute__(self, "_inner"), name, value)


class _FetchingIterator:
    def __init__(self, inner: Iterator[Any], ident: int) -> None:
        self._next, self._ident = inner.__next__, ident

    def __iter__(self) -> _FetchingIterator:
        return self

    def __next__(self) -> Any:
        flags = _FETCH_ERROR
        native.mark(k.FETCH, k.BEGIN, self._ident)
        try:
            item = self._next()
            flags = 0
            return item
        except StopIteration:
            flags = _FETCH_STOP
            raise
        finally:
            native.mark(k.FETCH, k.END, self._ident, 0, 0, 0, flags)


class _FetchingLoader(_Proxy):
    def __iter__(self) -> Iterator[Any]:
        inner = object.__getattribute__(self, "_inner")
        return _FetchingIterator(iter(inner), id(inner) & 0xFFFFFFFFFFFFFFFF)

    def __next__(self) -> Any:
        return next(iter(self))

    def __len__(self) -> int:
        return len(object.__getattribute__(self, "_inner"))


def wrap_dataloader_fetch(loader: Iterable[T]) -> Iterable[T]:
    """Counts the time to get each batch from ``loader`` (an iterable or iterator) as input wait. A DataLoader of torch
    is given back unchanged: it is seen already."""
    _prepare()
    if _is_torch_loader(loader):
        return loader
    if hasattr(loader, "__next__"):
        return _FetchingIterator(iter(loader), id(loader))
    return _FetchingLoader(loader)


def _is_torch_loader(loader: Any) -> bool:
    names = {f"{c.__module__}.{c.__qualname__}" for c in type(loader).__mro__}
    return bool(names & {"torch.utils.data.dataloader.DataLoader", "torch.utils.data.dataloader._BaseDataLoaderIter"})


def wrap_forward(target: T) -> T:
    """Times the forward of a module (as a root) or of a function. Returns the module itself, or the function wrapped."""
    _prepare()
    if hasattr(target, "register_forward_pre_hook"):
        if native.active():
            from stepscope.hooks import forward

            forward.hook(target)
        return target
    return _around(target, lambda f: native.forward_pre(f), lambda f: native.forward_post(f))


def wrap_backward(target: T) -> T:
    """Times a backward function of yours. Tensors are given back unchanged: their backward is seen already."""
    _prepare()
    if hasattr(target, "backward") or not callable(target):
        return target
    return _around(target, lambda f: native.backward_begin(), lambda f: native.backward_end())


def wrap_optimizer(target: T) -> T:
    """Times the step of an optimizer that is not torch's, or a function that steps. Torch's come back unchanged."""
    _prepare()
    if hasattr(target, "step"):
        if any(c.__module__ == "torch.optim.optimizer" for c in type(target).__mro__):
            return target
        return _SteppingProxy(target)  # type: ignore[return-value]
    return _around(target, lambda f: native.optimizer_pre(f), lambda f: native.optimizer_post(f))


class _SteppingProxy(_Proxy):
    def step(self, *args: Any, **kwargs: Any) -> Any:
        inner = object.__getattribute__(self, "_inner")
        native.optimizer_pre(inner)
        try:
            return inner.step(*args, **kwargs)
        finally:
            native.optimizer_post(inner)


class _MovingProxy(_Proxy):
    def to(self, *args: Any, **kwargs: Any) -> Any:
        native.mark(k.H2D, k.BEGIN)
        try:
            return object.__getattribute__(self, "_inner").to(*args, **kwargs)
        finally:
            native.mark(k.H2D, k.END)


def wrap_h2d(target: T) -> T:
    """Times a function that moves data to the device, or the ``to`` of an object (a batch of your own)."""
    _prepare()
    if not callable(target):
        return _MovingProxy(target) if hasattr(target, "to") else target  # type: ignore[return-value]
    return _around(target, lambda f: native.mark(k.H2D, k.BEGIN), lambda f: native.mark(k.H2D, k.END))


def _around(target: T, before: Callable[[Any], Any], after: Callable[[Any], Any]) -> T:
    function: Any = target

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        before(function)
        try:
            return function(*args, **kwargs)
        finally:
            after(function)

    stand_in: Any = wrapped
    return stand_in  # type: ignore[no-any-return]

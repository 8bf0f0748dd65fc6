"""init, trace_step, trace_phase, log."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable
from types import ModuleType, TracebackType
from typing import Any, TypeVar

from stepscope import _kinds as k

try:
    from stepscope import _native as _found
except ImportError:  # no native part for this platform: everything below does nothing
    from stepscope import _off as _found  # type: ignore[no-redef]

native = _found

F = TypeVar("F", bound=Callable[..., Any])
_ready = False
_known: dict[int, str] = {}


def _disabled() -> bool:
    return os.environ.get("STEPSCOPE_DISABLE", "") not in ("", "0")


def _prepare(opening_too: bool = True) -> None:
    """Once per process: hooks torch (now or when it is imported) and opens the black box where one is expected."""
    global _ready
    _ready = True
    if _disabled() or not os.environ.get("STEPSCOPE_SHM"):
        return
    try:
        from stepscope._late import when_imported
        from stepscope._traced import no_id
        from stepscope.hooks import compile as compilation
        from stepscope.hooks import install, opening

        when_imported("torch", _hook_torch(install))
        compilation.substitute(_name_id, no_id)
        if opening_too:
            opening.open_now()
    except Exception:
        pass


def _hook_torch(install: Callable[[ModuleType], bool]) -> Callable[[ModuleType], None]:
    def hook(torch: ModuleType) -> None:
        install(torch)

    return hook


def init() -> bool:
    """Observes this process. Returns True when it is being recorded, else False (``stepscope doctor`` says why).

    Under ``stepscope run`` nothing more is needed and this only says that the process is a training process. Without a
    launcher (``python train.py``, a notebook) it also starts the agent of this node or joins the one that another rank
    of the job has started; the summary is written and shown when the process ends. Call it early, best before the model
    is made. When the agent cannot be had, one line on stderr says why and the program goes on. Never raises. Cost: some
    20 ms, once.
    """
    if _disabled():
        return False
    if _inherited() and not _multiprocessing():
        for name in ("STEPSCOPE_SHM", "STEPSCOPE_RUN_DIR", "STEPSCOPE_NONCE", "STEPSCOPE_OWNER"):
            os.environ.pop(name, None)  # a program that an observed one has started: a training of its own
    if not os.environ.get("STEPSCOPE_SHM"):
        from stepscope import _agent

        reason = _agent.start()
        if reason:
            _say(f"stepscope: this process is not observed: {reason}")
            return False
    if _inherited():
        # A loader worker or a rank to be, whose main module runs again: the hooks will tell by what it does.
        _prepare(opening_too=False)
        return bool(native.active())
    _prepare()
    if native.active():
        native.add_evidence(k.EVIDENCE_INIT)
        _watch_end()
    return bool(native.active())


def _watch_end() -> None:
    """How the process ends is of interest even when it never imports torch, with which the other hooks come."""
    try:
        from stepscope.hooks import exceptions, exit

        exceptions.install(None, native)
        exit.install(None, native)
    except Exception:
        pass


def _inherited() -> bool:
    """True when the environment says that another process, our parent or its parent, is the observed one."""
    return os.environ.get("STEPSCOPE_OWNER", "") not in ("", str(os.getpid())) and bool(native.may_be_rank())


def _multiprocessing() -> bool:
    from stepscope.hooks import opening

    return opening.is_multiprocessing_child()


def _say(line: str) -> None:
    try:
        print(line, file=sys.stderr)
    except Exception:
        pass


class _Decorator:
    """A context manager that also decorates functions, coroutine functions included."""

    __slots__ = ()

    def __enter__(self) -> Any:
        raise NotImplementedError

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        raise NotImplementedError

    def __call__(self, function: F) -> F:
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def waiting(*args: Any, **kwargs: Any) -> Any:
                with self:
                    return await function(*args, **kwargs)

            return waiting  # type: ignore[return-value]

        @functools.wraps(function)
        def calling(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return calling  # type: ignore[return-value]


class trace_step(_Decorator):
    """Makes step boundaries exact: one training step per ``with`` block (or call of the decorated function).

    ``model``: the root module, so that its forward is timed from the first step on; optional. A block in which no
    optimizer stepped (gradient accumulation) joins the next one; in a run without optimizers every block is a step.
    An exception passes through. Cost: about 0.3 µs.
    """

    __slots__ = ()

    def __init__(self, model: Any = None) -> None:
        if not _ready:
            _prepare()
        if model is not None and id(model) not in _known:
            _know(model)

    def __enter__(self) -> trace_step:
        native.step_begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        native.step_end()


def _know(model: Any) -> None:
    _known[id(model)] = type(model).__name__
    if native.active() and "torch" in sys.modules and hasattr(model, "register_forward_pre_hook"):
        from stepscope.hooks import forward

        forward.hook(model)


class trace_phase(_Decorator):
    """Names what the program does: ``with trace_phase("augment"): ...`` or ``@trace_phase("augment")``.

    The time inside, without the phases that stepscope sees by itself, is shown under this name (at most 63 bytes are
    kept). ``"validation"``, ``"checkpoint"`` and ``"logging"`` go to the categories of that name. Nesting is allowed. An
    exception passes through. Cost: about 0.3 µs.
    """

    __slots__ = ("_id", "_name")

    def __init__(self, name: str) -> None:
        if not _ready:
            _prepare()
        self._name = _short(name)
        self._id = _name_id(k.NAME_PHASE, self._name)

    def __enter__(self) -> trace_phase:
        native.span(k.USER_PHASE, k.BEGIN, self._id)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        native.span(k.USER_PHASE, k.END, self._id)


def log(**values: Any) -> None:
    """Records values for the current step: ``log(loss=…, tokens=…, samples=…, lr=…, epoch=…)`` or names of your own.

    Numbers, numpy scalars and CPU tensors of one element are taken; a tensor on a GPU is not, since reading it would
    make the GPU wait (pass ``tensor.item()`` where you have it anyway). ``tokens``, ``samples`` and ``flops`` count what
    this rank processed since the last call; they replace what is counted from the batches. Never raises.
    """
    if not _ready:
        _prepare()
    if not native.active():
        return
    for key, value in values.items():
        try:
            if getattr(getattr(value, "device", None), "type", "cpu") != "cpu":
                from stepscope.hooks import names

                names.unavailable(f"log({key})", "a tensor on a device is not read, since that would synchronise it")
                continue
            native.value(_name_id(k.NAME_VALUE, _short(key)), float(value))
        except Exception:
            continue


def _short(name: Any) -> str:
    """At most 63 bytes of UTF-8, as the C interface keeps."""
    return str(name).encode("utf-8", "replace")[:63].decode("utf-8", "ignore")


_ids: dict[tuple[int, str], int] = {}


def _name_id(kind: int, text: str) -> int:
    ident = _ids.get((kind, text))
    if ident is None:
        ident = _ids[kind, text] = k.text_id(text)
        if _ready:
            try:
                from stepscope.hooks import names

                names.once(kind, ident, text)
            except Exception:
                pass
    return ident


# Under the launcher: now, not at the first use, which may be inside a function that torch.compile traces.
if getattr(sys, "_stepscope_installed", False):
    _prepare()

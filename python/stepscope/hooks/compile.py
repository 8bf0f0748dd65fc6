"""Compilation: spans from dynamo's own callbacks, and what torch.compile must know about our hooks.

torch._dynamo.reset() drops the callbacks: they are put back at once, or where that cannot be arranged at the next step
boundary, when the C side sees the empty list.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from stepscope import _native as native
from stepscope._late import when_imported
from stepscope._traced import nothing
from stepscope.hooks import boundary, names

_substitutes: list[tuple[Any, Any]] = []
_substituted = False
_handler: Any = None


def substitute(function: Any, traced: Any) -> None:
    """Where torch.compile meets the C function ``function`` it traces ``traced`` instead."""
    _substitutes.append((function, traced))
    if _substituted:
        _substitute_one(function, traced)


def _substitute_one(function: Any, traced: Any) -> None:
    from torch._dynamo.decorators import substitute_in_graph

    substitute_in_graph(function, skip_signature_check=True)(traced)


def _first_compile(*args: Any) -> None:
    """Runs as a compile callback, before the frame is traced: later than importing dynamo, which most runs do for nothing."""
    global _substituted
    if _substituted:
        return
    _substituted = True
    for function, traced in _substitutes:
        try:
            _substitute_one(function, traced)
        except Exception as error:
            names.unavailable("compile", f"{type(error).__name__}: {error}")
    try:
        from torch._dynamo import trace_rules

        trace_rules.add("stepscope.hooks")
    except Exception:
        pass
    _expect_warnings()


def _expect_warnings() -> None:
    """Where torch compiles ``optimizer.step`` our hooks run between its graphs, where it breaks without us, too. Of a C
    function there it warns, once for each: the program's output stays as it is.
    """
    try:
        from torch._dynamo import utils

        said = utils.warn_once_cache

        def before(args: Any, kwargs: Any) -> None:
            message = kwargs.get("msg", args[0] if args else "")
            if isinstance(message, str) and "`stepscope._native." in message:
                said.add(message)

        utils.warn_once = native.around(utils.warn_once, before, None)
    except Exception:  # an older torch warns of no C function
        pass


def _register() -> None:
    if _handler is None:
        return
    if not _substituted and _first_compile not in _handler.start_callbacks:
        _handler.register_start_callback(_first_compile)
    if native.compile_start not in _handler.start_callbacks:
        _handler.register_start_callback(native.compile_start)
        _handler.register_end_callback(native.compile_end)
    native.set_hook("compile_callbacks", _handler.start_callbacks)


def _dynamo_imported(module: ModuleType) -> None:
    global _handler
    _handler = module.callback_handler
    _handler.clear = native.around(_handler.clear, None, lambda *_: _register())
    _register()


def install(torch: ModuleType, _native: ModuleType) -> None:
    if hasattr(torch.compiler, "substitute_in_graph"):
        hooks = (native.forward_pre, native.forward_post)
        api = (native.mark, native.span, native.value, native.step_begin, native.step_end)
        for function in hooks + api:
            substitute(function, nothing)
    when_imported("torch._dynamo.callback", _dynamo_imported)
    boundary.on(boundary.COMPILE_LOST, _register)

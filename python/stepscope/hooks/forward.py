"""Forward of root modules: hooks on a few instances, never on every module and never global ones.

Which modules: those that a wrapper class makes (DDP, FSDP, OptimizedModule, DeepSpeedEngine), hooked when they are made;
and, once after the first optimizer step, one pass over the live objects: modules that are no child of another. Where no
wrapper ran, those with trainable parameters; when none of them ran in a whole step although a backward did (Lightning
calls the parts of its root), their children are hooked, and so on, at most four levels down. Once it is settled which
modules train, those beside them (a teacher, a frozen encoder, a reference model).

The hooks are C functions; torch.compile is told to take them out of what it traces (``compile.py``).
"""

from __future__ import annotations

import contextlib
import gc
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any

from stepscope import _kinds as k
from stepscope import _native as native
from stepscope._late import when_imported
from stepscope.hooks import boundary, names
from stepscope.hooks._replace import replace_everywhere

_MOST_MODULES = 64
_WRAPPERS = ("DistributedDataParallel", "DeepSpeedEngine")
_MOST_LEVELS = 4
_hooked: dict[int, tuple[weakref.ref[Any], Any, Any]] = {}
_parts: set[int] = set()  # of them: compiled modules, which may be parts of a larger one
_level: list[Any] = []  # weak references to the modules hooked last
_beside: list[Any] = []  # weak references to modules beside those that train
_levels = 0
_backwards = 0  # how many had ended when the modules of this level were hooked
_pre: Any = native.forward_pre
_post: Any = native.forward_post


def hook(module: Any) -> None:
    """Marks the forward of ``module`` from now on. Hooks on modules inside it are taken away. Never raises."""
    try:
        known = _hooked.get(id(module))
        if known is not None and known[0]() is module:
            return
        for inner in module.modules():
            if inner is not module:
                unhook(inner)
        _attach(module)
        # Evaluations often call the module inside its wrapper. Within the wrapper's own forward it does not count.
        inside = getattr(module, "module", None) if type(module).__name__ in _WRAPPERS else None
        if inside is not None:
            _attach(inside)
    except Exception as error:
        names.unavailable("forward", f"{type(module).__name__}: {error}")


def unhook(module: Any) -> None:
    """Takes the hooks off ``module`` if it has them."""
    known = _hooked.get(id(module))
    if known is not None and known[0]() is module:
        del _hooked[id(module)]
        known[1].remove()
        known[2].remove()


def _attach(module: Any) -> None:
    if len(_hooked) >= _MOST_MODULES:
        for ident in [i for i, known in _hooked.items() if known[0]() is None]:
            del _hooked[ident]
        if len(_hooked) >= _MOST_MODULES:
            return
    before = module.register_forward_pre_hook(_pre, prepend=True)
    try:
        after = module.register_forward_hook(_post, always_call=True)
    except Exception:
        before.remove()
        raise
    _hooked[id(module)] = (weakref.ref(module), before, after)
    names.name(k.NAME_MODULE, id(module), _title(module))


def _attach_quietly(module: Any) -> None:
    """A module that takes no hooks (scripted ones refuse some) costs the others none."""
    try:
        _attach(module)
    except Exception as error:
        names.unavailable("forward", f"{type(module).__name__}: {error}")


def _title(module: Any) -> str:
    """``"DistributedDataParallel(Net)"``: a wrapper's name says little."""
    inner = getattr(module, "module", None)
    if inner is None:
        inner = getattr(module, "_orig_mod", None)
    title = type(module).__name__
    return f"{title}({type(inner).__name__})" if inner is not None and hasattr(inner, "parameters") else title


def roots() -> list[Any]:
    """The live modules that are no child of another. One pass over all objects."""
    import torch

    found = [m for m in native.instances(gc.get_objects(), torch.nn.Module) if "_modules" in m.__dict__]
    children = {id(child) for m in found for child in m.__dict__["_modules"].values() if child is not None}
    return [m for m in found if id(m) not in children]


def hooked_modules() -> Iterator[Any]:
    """The modules that have hooks with all within them; those of several are there several times."""
    for known in list(_hooked.values()):
        if (module := known[0]()) is not None:
            yield from module.modules()


def _trainable(modules: Iterable[Any]) -> list[Any]:
    """Those with a parameter to train; of others that have parameters it is kept that they are there."""
    trainable = []
    for module in modules:
        if any(p.requires_grad for p in module.parameters()):
            trainable.append(module)
        elif any(True for _ in module.parameters()):
            _put_beside(module)
    return trainable


def _put_beside(module: Any) -> None:
    if len(_beside) < _MOST_MODULES:
        _beside.append(weakref.ref(module))


def _first_boundary() -> None:
    """After the first step: which modules there are. The forward of a wrapper that was seen settles who trains; that of
    a compiled module does not: it may be a part of a larger one (blocks are often compiled one by one)."""
    settled = any(known[0]() is not None and id_ not in _parts for id_, known in _hooked.items())
    trainable = _trainable(roots())
    if native.counters()[2] > 0 and settled:
        for module in trainable:
            _put_beside(module)
        return _settle()
    _descend(trainable, hook)


def _settle() -> None:
    """Who trains is known: the rest is hooked, too."""
    native.watch_fired(False)
    inside = {id(m) for m in hooked_modules()}
    for ref in _beside:
        module = ref()
        if module is None or id(module) in inside:
            continue
        _attach_quietly(module)
    _beside.clear()


def _descend(modules: list[Any], attach: Callable[[Any], None]) -> None:
    global _levels, _backwards
    fresh = [m for m in modules[:_MOST_MODULES] if id(m) not in _hooked]
    if not fresh or _levels >= _MOST_LEVELS:
        return _settle()
    _levels += 1
    for module in fresh:
        attach(module)
    _level[:] = [weakref.ref(m) for m in fresh]
    _backwards = native.counters()[1]
    native.watch_fired(True)
    boundary.request(_check_silence)


def _check_silence() -> None:
    """One backward later: settled when a hooked module ran, else one level further down."""
    if native.counters()[1] == _backwards:
        boundary.request(_check_silence)
        return
    if native.take_fired():
        return _settle()
    parents = [m for m in (ref() for ref in _level) if m is not None]
    _descend(_trainable(c for m in parents for c in m.children()), _attach_quietly)


def _hook_compiled(module: Any) -> None:
    hook(module)
    if id(module) in _hooked:
        _parts.add(id(module))


def _wrap_constructor(cls: Any, made: Callable[[Any], None] = hook) -> None:
    def after(_state: Any, args: Any, _kwargs: Any, _result: Any, failed: bool) -> None:
        if not failed:
            made(args[0])

    cls.__init__ = native.around(cls.__init__, None, after)


def _wrap_fully_shard(module: ModuleType) -> None:
    def after(_state: Any, args: Any, kwargs: Any, _result: Any, failed: bool) -> None:
        target = args[0] if args else kwargs.get("module")
        if not failed and hasattr(target, "modules"):  # torch also takes a list of modules
            hook(target)

    module.fully_shard = native.around(module.fully_shard, None, after)  # type: ignore[attr-defined]


class _Guarded:
    """A hook that says nothing while torch.compile traces. Pickled as the C hooks are: as a function that does nothing,
    so that a saved model loads where stepscope is not installed."""

    def __init__(self, hook: Any, compiling: Callable[[], bool]) -> None:
        self.hook, self.compiling = hook, compiling

    def __call__(self, *args: Any) -> None:
        if not self.compiling():
            self.hook(*args)

    def __reduce__(self) -> Any:
        return getattr, (contextlib.nullcontext(), "__exit__")


def _guarded_hooks(torch: ModuleType) -> None:
    """torch before 2.5 cannot take a C function out of a graph: there, hooks that look whether it traces."""
    global _pre, _post
    _pre, _post = (_Guarded(hook, torch.compiler.is_compiling) for hook in (native.forward_pre, native.forward_post))


def _without_hooks(original: Any) -> Any:
    """torch.jit compiles the hooks of a module: ours are off while it looks."""

    def before(args: Any, kwargs: Any) -> list[Any]:
        target = args[0] if args else kwargs.get("obj", kwargs.get("func"))
        # Of a class, `modules` is a plain function.
        inside = list(target.modules()) if not isinstance(target, type) and hasattr(target, "modules") else []
        ours = [m for m in inside if id(m) in _hooked and _hooked[id(m)][0]() is m]
        for module in ours:
            unhook(module)
        return ours

    def after(ours: list[Any] | None, _args: Any, _kwargs: Any, _result: Any, _failed: bool) -> None:
        for module in ours or []:
            _attach(module)

    return native.around(original, before, after)


def install(torch: ModuleType, _native: ModuleType) -> None:
    native.set_hook("is_grad_enabled", torch.is_grad_enabled)
    if not hasattr(torch.compiler, "substitute_in_graph"):
        _guarded_hooks(torch)
    from torch.nn.parallel import distributed

    _wrap_constructor(distributed.DistributedDataParallel)
    when_imported("torch._dynamo.eval_frame", lambda m: _wrap_constructor(m.OptimizedModule, _hook_compiled))
    when_imported(
        "torch.distributed.fsdp.fully_sharded_data_parallel", lambda m: _wrap_constructor(m.FullyShardedDataParallel)
    )
    when_imported("torch.distributed.fsdp._fully_shard._fully_shard", _wrap_fully_shard)
    when_imported("torch.distributed._composable.fsdp.fully_shard", _wrap_fully_shard_old)
    when_imported("deepspeed.runtime.engine", lambda m: _wrap_constructor(m.DeepSpeedEngine))
    for name in ("script", "trace"):
        original = getattr(torch.jit, name)
        replace_everywhere(original, _without_hooks(original), name)
    boundary.request(_first_boundary)


def _wrap_fully_shard_old(module: ModuleType) -> None:
    """torch 2.4 and 2.5 have the function itself there; later ones re-export the wrapped one."""
    function = getattr(module, "fully_shard", None)
    if function is not None and not native.is_stand_in(function) and sys.modules.get(function.__module__) is module:
        _wrap_fully_shard(module)

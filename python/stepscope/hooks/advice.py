"""Facts about how the program is set up, read once from its live objects, for advice on the configuration.

What is advised is decided by the reader (src/diagnose/rules_advice*.cc); here are only facts: how DDP and FSDP wrap the
model, how the loaders sample, how many threads there are, which debugging switches are on, what the optimizer updates,
how many operators a backward goes through.
They are read when an object is made, when a loader is iterated, and between the first few steps; nothing runs in a later
step. Nothing is kept alive.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import statistics
import time
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

from stepscope import _kinds as k
from stepscope import _native as native
from stepscope._late import when_imported
from stepscope.hooks import boundary, forward, groups, names

_LOOKED_AT = 12  # steps between which DDP is asked for unused parameters; it counts them in its first ten
_VALUES_LOOKED_AT = 4096  # of each parameter, spread evenly
_MANY_OPERATORS, _CHAINS, _LINKS = 500, 7, 8
_MOST_EPOCHS = 4  # after so many, more epochs say nothing new

_ids = itertools.count(1)
_wrapped: list[tuple[int, weakref.ref[Any]]] = []  # models in DDP
_ddp: list[tuple[int, weakref.ref[Any]]] = []  # of these, with find_unused_parameters
_sharded: list[weakref.ref[Any]] = []  # what fully_shard or FSDP were given, in order
_epochs: dict[int, set[int]] = {}  # per loader: values of its sampler's epoch
_counts: dict[int, int] = {}  # per loader: epochs begun
_steps = _asked = 0
_most_unused: dict[int, int] = {}


def record(subject: str, ident: int, **values: object) -> None:
    """Tells facts about one object: ``"loader|workers=4;batch=16"``. Replaces what was told of it before. None is left
    out."""
    parts = [f"{key}={_plain(value)}" for key, value in values.items() if value is not None]
    names.once(k.NAME_ADVICE, ident, f"{subject}|{';'.join(parts)}"[:500])


def _plain(value: object) -> str:
    return "".join(c if c not in "|;=" else "_" for c in str(int(value) if isinstance(value, bool) else value))


# ---- DistributedDataParallel ----


def _ddp_made(module: Any) -> None:
    import torch

    norm = torch.nn.modules.batchnorm
    layers = sum(isinstance(m, norm._BatchNorm) and not isinstance(m, norm.SyncBatchNorm) for m in module.modules())
    size = sum(p.numel() * p.element_size() for p in module.parameters() if p.requires_grad)
    buffers = sum(b.numel() * b.element_size() for b in getattr(module, "modules_buffers", ()))
    unused = bool(getattr(module, "find_unused_parameters", False))
    ident = next(_ids)
    record(
        "ddp",
        ident,
        world=module.process_group.size(),
        batchnorm=layers,
        find_unused=unused,
        static_graph=getattr(module, "static_graph", None),
        bucket_bytes=getattr(module, "bucket_bytes_cap", None),
        parameter_bytes=size,
        broadcast_bytes=buffers if getattr(module, "broadcast_buffers", False) else 0,
    )
    _wrapped.append((ident, weakref.ref(module)))
    if unused:
        _ddp.append((ident, weakref.ref(module)))


def _look_outside_ddp() -> None:
    """Parameters of a wrapped model that train and are none of those whose gradients DDP averages: they came into the
    model, or were unfrozen, after it was wrapped. Their values are told too, as a sum over some elements: ranks that
    keep them equal by other means have the same. On a device that would make the host wait."""
    import torch

    for ident, ref in _wrapped:
        module = ref()
        averaged = getattr(module, "_module_parameters", None)
        if module is None or averaged is None:
            continue
        known = {id(p) for p in (*averaged, *getattr(module, "_delay_all_reduce_params", ()))}
        outside = [
            (name, p)
            for name, p in module.module.named_parameters()
            if p.requires_grad and p.grad is not None and id(p) not in known and not hasattr(p, "_ddp_ignored")
        ]
        plain = all(
            type(p.data) is torch.Tensor and p.device.type == "cpu" and p.is_floating_point() for _, p in outside
        )
        if not outside or not plain:
            continue
        parts = [p.detach().reshape(-1)[:: max(1, p.numel() // _VALUES_LOOKED_AT)] for _, p in outside]
        record(
            "ddp_outside",
            ident,
            step=_steps,
            group=groups.known_id(module.process_group),
            parameters=len(outside),
            bytes=sum(p.numel() * p.element_size() for _, p in outside),
            first=outside[0][0],
            sum=sum(float(part.double().sum()) for part in parts),
        )
    _wrapped.clear()


def _ask_ddp(last: bool) -> None:
    for ident, ref in _ddp:
        module = ref()
        if module is None:
            continue
        data = module._get_ddp_logging_data()
        steps = int(data.get("iteration") or 0)
        _most_unused[ident] = max(_most_unused.get(ident, 0), int(data.get("unused_parameter_size") or 0))
        if last:
            record("ddp_unused", ident, steps=steps, most=_most_unused[ident])


# ---- FSDP ----


def _shares_root(ref: weakref.ref[Any]) -> Any:
    """The module when it is the root of what was sharded, else None."""
    module = ref()
    if module is None:
        return None
    state = getattr(module, "_get_fsdp_state", None)
    root = state()._is_root if state is not None else getattr(module, "_is_root", None)
    return module if root else None


def _fsdp2_units(root: Any) -> tuple[list[int], Any]:
    """Parameters of each unit, the root's first, and one of the groups."""
    sizes, some = [], None
    for module in root.modules():
        state = getattr(module, "_get_fsdp_state", None)
        group = getattr(state(), "_fsdp_param_group", None) if state is not None else None
        if group is None:
            if module is root:
                sizes.append(0)
            continue
        some = some or group
        sizes.append(sum(p._orig_size.numel() for p in group.fsdp_params))
    return sizes, some


def _fsdp1_units(root: Any) -> list[int]:
    sizes = []
    for module in type(root).fsdp_modules(root):
        handle = getattr(module, "_handle", None)
        flat = getattr(handle, "flat_param", None)
        size = getattr(flat, "_unpadded_unsharded_size", None)
        sizes.append(int(size.numel()) if size is not None else 0)
    return sizes


def _describe_fsdp(root: Any) -> None:
    import torch

    values: dict[str, object]
    if hasattr(root, "_get_fsdp_state"):
        sizes, group = _fsdp2_units(root)
        mesh = getattr(getattr(group, "mesh_info", None), "mesh", None)
        offload = "CPU" in type(getattr(group, "offload_policy", None)).__name__
        values = {"version": 2, "world": mesh.size() if mesh is not None else None, "offload": offload}
    else:
        sizes = _fsdp1_units(root)
        prefetch = getattr(root, "backward_prefetch", None)
        offload = getattr(getattr(root, "cpu_offload", None), "offload_params", False)
        values = {
            "version": 1,
            "world": root.process_group.size(),
            "prefetch": getattr(prefetch, "name", "none"),
            "offload": bool(offload),
        }
    if not sizes:
        return
    units = [s for s in sizes if s > 0]
    cuda: Any = torch.cuda
    device = cuda.get_device_properties(cuda.current_device()).total_memory if cuda.is_initialized() else None
    record(
        "fsdp",
        next(_ids),
        **values,
        units=len(units),
        parameters=sum(sizes),
        root_parameters=sizes[0],
        median_parameters=int(statistics.median(units)) if units else None,
        device_bytes=device,
    )


# ---- loaders ----


def iterating(loader: Any, ident: int) -> None:
    """Called at the start of each epoch of a loader. Cost after the first epochs: a look at the sampler's epoch."""
    sampler = getattr(loader, "sampler", None)
    distributed = hasattr(sampler, "num_replicas") and hasattr(sampler, "set_epoch")
    epoch = getattr(sampler, "epoch", None) if distributed else None
    seen = _epochs.setdefault(ident, set())
    count = _counts[ident] = _counts.get(ident, 0) + 1
    if count > _MOST_EPOCHS:
        return
    if isinstance(epoch, int):
        seen.add(epoch)
    dataset = getattr(loader, "dataset", None)
    iterable = _is_iterable(dataset)
    batch_sampler = getattr(loader, "batch_sampler", None)
    record(
        "loader",
        ident,
        workers=getattr(loader, "num_workers", None),
        batch=getattr(loader, "batch_size", None) or getattr(batch_sampler, "batch_size", None),
        pin=_flag(loader, "pin_memory"),
        persistent=_flag(loader, "persistent_workers"),
        drop_last=_flag(loader, "drop_last"),
        iterable=iterable,
        dataset=type(dataset).__name__,
        whole_batches=hasattr(dataset, "__getitems__"),
        sampler=type(sampler).__name__,
        batch_sampler=type(batch_sampler).__name__,
        samples=None if iterable else _length(dataset),
        batches=None if iterable else _length(loader),
        distributed=distributed,
        shuffle=_flag(sampler, "shuffle") if distributed else None,
        sampler_samples=_length(sampler) if distributed else None,
        epochs=count,
        distinct_epochs=len(seen) if isinstance(epoch, int) else None,
        sampler_epoch=epoch if isinstance(epoch, int) else None,
    )


def _is_iterable(dataset: Any) -> bool:
    from torch.utils.data import IterableDataset

    return isinstance(dataset, IterableDataset)


def _flag(owner: Any, attribute: str) -> int | None:
    value = getattr(owner, attribute, None)
    return int(value) if isinstance(value, bool) else None


def _length(thing: Any) -> int | None:
    """``len(thing)``, None where it has none. At most a few calls per loader."""
    try:
        return len(thing)
    except Exception:
        return None


# ---- optimizer ----

_ROWS_LOOKED_AT = 4096  # of the largest gradient, spread evenly


def _describe_optimizer(optimizer: Any) -> None:
    """What is updated, and how much of the largest table a step touched. Of gradients on a device only shapes are looked
    at: their values would make the host wait."""
    import torch

    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    if not parameters:
        return
    largest = max(parameters, key=lambda p: p.numel())
    gradient = largest.grad
    touched = None
    plain = type(gradient) is torch.Tensor and gradient.layout == torch.strided and gradient.device.type == "cpu"
    if plain and gradient.dim() == 2 and gradient.is_floating_point() and gradient.dtype.itemsize >= 4:
        with contextlib.suppress(RuntimeError):  # a torch without numpy
            rows = gradient.detach().numpy()[:: max(1, gradient.shape[0] // _ROWS_LOOKED_AT)]
            touched = round(float((rows != 0).any(axis=1).mean()), 4)
    record(
        "optimizer",
        0,
        parameters=sum(p.numel() for p in parameters),
        largest=largest.numel(),
        rows=largest.shape[0] if largest.dim() == 2 else None,
        columns=largest.shape[1] if largest.dim() == 2 else None,
        touched=touched,
    )


# ---- debugging switches ----


def _describe_switches(torch: Any) -> None:
    record(
        "switches",
        0,
        step=_steps,
        anomaly=torch.is_anomaly_enabled(),
        profiler=bool(torch._C._autograd._profiler_enabled()),
        launch_blocking=os.environ.get("CUDA_LAUNCH_BLOCKING") == "1" and torch.cuda.is_initialized(),
        distributed_debug=os.environ.get("TORCH_DISTRIBUTED_DEBUG", "").upper() == "DETAIL",
    )


# ---- operators ----


def _describe_graph(torch: Any) -> None:
    """How many operators a backward goes through; where they are many, with what one takes here that computes nothing."""
    nodes = native.graph_nodes()
    least = _least_operator(torch) if nodes >= _MANY_OPERATORS else None
    forward_us, backward_us = least or (None, None)
    # torch's own recurrent modules hand out the operators of all times in one call, which no loop of the program does.
    recurrent = len({id(m) for m in forward.hooked_modules() if isinstance(m, torch.nn.RNNBase)}) if least else None
    if nodes:
        record("graph", 0, nodes=nodes, forward_us=forward_us, backward_us=backward_us, recurrent=recurrent)


def _least_operator(torch: Any) -> tuple[float, float] | None:
    """Time on a core of an operator of one element, forward and per node of backward, us: medians of a few short chains,
    some 5 ms in all. None within a backward, and under modes, a profiler or hooks on saved tensors that would see our
    operators. The engine is called itself: hooks, ours among them, are for the program's backwards."""
    from torch.utils import _python_dispatch

    modes = torch._C._len_torch_function_stack() or _python_dispatch._get_current_dispatch_mode() is not None
    top_of_saved = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)
    watched = torch._C._autograd._profiler_enabled() or (top_of_saved is not None and top_of_saved(True) is not None)
    in_backward = getattr(torch._C, "_current_graph_task_id", lambda: -1)() != -1
    if modes or watched or in_backward or torch.is_inference_mode_enabled():
        return None
    run_backward = torch.autograd.Variable._execution_engine.run_backward
    forward, backward = [], []
    with torch.enable_grad(), torch.autocast("cpu", enabled=False):
        weight = torch.full((1, 1), 0.5, dtype=torch.float32, device="cpu", requires_grad=True)
        one = torch.ones(1, 1, dtype=torch.float32, device="cpu")
        for _ in range(_CHAINS):
            begin = time.thread_time_ns()
            end = one
            for _ in range(_LINKS):
                end = torch.sigmoid(torch.nn.functional.linear(end, weight)) * 0.5
            middle = time.thread_time_ns()
            run_backward((end,), (one,), False, False, (), allow_unreachable=True, accumulate_grad=True)
            operators = 1e3 * (4 * _LINKS + 1)  # of each link a product of matrices, a transposed, two more
            forward.append((middle - begin) / operators)
            backward.append((time.thread_time_ns() - middle) / operators)
    return round(statistics.median(forward), 2), round(statistics.median(backward), 2)


# ---- the first steps ----


def _cores() -> float:
    """Cores that this process may use: its affinity, and the quota of its control group."""
    cores = float(len(os.sched_getaffinity(0)))
    try:
        with open("/sys/fs/cgroup/cpu.max", encoding="ascii") as file:
            quota, period = file.read().split()
        if quota != "max":
            cores = min(cores, float(quota) / float(period))
    except (OSError, ValueError):
        pass
    return cores


def _between_steps() -> None:
    global _steps
    import torch

    _steps += 1
    last = _steps >= _LOOKED_AT
    if _steps == 1:
        cpus = groups.ranges(sorted(os.sched_getaffinity(0)))
        record("threads", 0, torch=torch.get_num_threads(), cores=round(_cores(), 2), cpus=cpus)
        root = next((m for m in map(_shares_root, _sharded) if m is not None), None)
        if root is not None:
            _quietly("advice on FSDP", _describe_fsdp, root)
        _sharded.clear()
    if _ddp:
        _quietly("advice on unused parameters", _ask_ddp, last)
    if not last:
        boundary.request(_between_steps)
        return
    _quietly("a look at parameters outside of DDP", _look_outside_ddp)
    _quietly("advice on debugging switches", _describe_switches, torch)
    _quietly("a look at the graph", _describe_graph, torch)
    _at_optimizer()


def _at_optimizer() -> None:
    """Boundaries of trace_step are no optimizer's: then the next one is asked."""
    global _asked
    _asked += 1
    optimizer = native.stepping()
    if optimizer is not None:
        _quietly("advice on the optimizer", _describe_optimizer, optimizer)
    elif _asked < _LOOKED_AT:
        boundary.request(_at_optimizer)


def _quietly(what: str, function: Callable[..., None], *args: Any) -> None:
    try:
        function(*args)
    except Exception as error:
        names.unavailable(what, f"{type(error).__name__}: {error}")


def _wrap_constructor(cls: Any, what: str, made: Callable[[Any], None]) -> None:
    def after(_state: Any, args: Any, _kwargs: Any, _result: Any, failed: bool) -> None:
        if not failed:
            _quietly(what, made, args[0])

    cls.__init__ = native.around(cls.__init__, None, after)


def _wrap_fully_shard(module: ModuleType) -> None:
    def after(_state: Any, args: Any, kwargs: Any, _result: Any, failed: bool) -> None:
        target = args[0] if args else kwargs.get("module")
        if not failed and hasattr(target, "modules"):
            _sharded.append(weakref.ref(target))

    module.fully_shard = native.around(module.fully_shard, None, after)  # type: ignore[attr-defined]


def install(torch: ModuleType, _native: ModuleType) -> None:
    from torch.nn.parallel import distributed

    _wrap_constructor(distributed.DistributedDataParallel, "advice on DDP", _ddp_made)
    when_imported(
        "torch.distributed.fsdp.fully_sharded_data_parallel",
        lambda m: _wrap_constructor(
            m.FullyShardedDataParallel, "advice on FSDP", lambda x: _sharded.append(weakref.ref(x))
        ),
    )
    when_imported("torch.distributed.fsdp._fully_shard._fully_shard", _wrap_fully_shard)
    boundary.request(_between_steps)

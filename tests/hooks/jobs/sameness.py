"""Says what a program can see of each attribute that stepscope replaces: as JSON, the same with and without it."""

import copy
import functools
import importlib
import inspect
import json
import pickle
import re
import sys
import threading
import traceback
import types
import weakref

import torch
import torch.distributed as dist
import torch.distributed.checkpoint.state_dict_saver
import torch.distributed.device_mesh
import torch.distributed.fsdp

REPLACED = """
torch:save torch.serialization:save torch.jit:script torch.jit:trace
torch.autograd.graph:_engine_run_backward torch.autograd:_engine_run_backward
torch.optim.lr_scheduler:LRScheduler.step torch.optim.lr_scheduler:StepLR.step torch.amp:GradScaler.step
torch.nn.utils:clip_grad_norm_ torch.nn.utils.clip_grad:clip_grad_norm_
torch.utils.data:DataLoader.__iter__ torch.utils.data.dataloader:_BaseDataLoaderIter.__next__
torch.utils.data.dataloader:_MultiProcessingDataLoaderIter._shutdown_workers
torch.utils.data.dataloader:_SingleProcessDataLoaderIter.__next__
torch.nn.parallel:DistributedDataParallel.__init__ torch.distributed.fsdp:FullyShardedDataParallel.__init__
torch.distributed.fsdp:fully_shard torch.distributed.device_mesh:DeviceMesh.__init__
torch._dynamo.eval_frame:OptimizedModule.__init__
torch.distributed:init_process_group torch.distributed:destroy_process_group torch.distributed:new_group
torch.distributed:split_group torch.distributed:monitored_barrier torch.distributed:barrier torch.distributed:Work.wait
torch.distributed:_broadcast_coalesced torch.distributed:_verify_params_across_processes
torch.distributed.checkpoint:save torch.distributed.checkpoint:async_save
torch.distributed._functional_collectives:wait_tensor
""".split()


def look(ask):
    try:
        return ask()
    except BaseException as error:
        return f"{type(error).__name__}"


def plain(thing):
    return re.sub(" at 0x[0-9a-f]+", "", str(thing))


def described(name):
    module, _, path = name.partition(":")
    owner, _, last = path.rpartition(".")
    home = importlib.import_module(module)
    holder = functools.reduce(getattr, owner.split("."), home) if owner else home
    thing = getattr(holder, last)
    other = (lambda: None) if not inspect.isclass(holder) else object.__new__(object)
    return {
        "signature": look(lambda: plain(inspect.signature(thing))),
        "source": look(lambda: inspect.getsource(thing)),
        "file": look(lambda: inspect.getsourcefile(thing)),
        "names": [look(lambda: getattr(thing, a)) for a in ("__name__", "__qualname__", "__module__", "__doc__")],
        "annotations": look(lambda: str(thing.__annotations__)),
        "defaults": look(lambda: plain((thing.__defaults__, thing.__kwdefaults__))),
        "code": look(lambda: thing.__code__.co_name),
        "dict": look(lambda: sorted(vars(thing))),
        "wrapped": hasattr(thing, "__wrapped__"),
        "kinds": [
            isinstance(thing, types.FunctionType),
            inspect.isfunction(thing),
            inspect.isroutine(thing),
            callable(thing),
        ],
        "class": look(lambda: thing.__class__.__name__),
        "bound": look(lambda: type(thing.__get__(other)).__name__),
        "func": look(lambda: types.MethodType(thing, other).__func__ is thing),
        "self": look(lambda: thing.__get__(other).__self__ is other),
        "bound_name": look(lambda: thing.__get__(other).__qualname__),
        "bound_signature": look(lambda: plain(inspect.signature(thing.__get__(other)))),
        "pickled": look(lambda: pickle.loads(pickle.dumps(thing)) is thing),
        "pickled_slowly": look(lambda: pickle._loads(pickle._dumps(thing)) is thing),
        "copied": look(lambda: copy.deepcopy(thing) is thing and copy.copy(thing) is thing),
        "weak": look(lambda: weakref.ref(thing)() is thing),
        "wraps": look(lambda: functools.wraps(thing)(lambda: 0).__qualname__),
        "repr": look(lambda: repr(thing).split(" at ")[0]),
        "hash": look(lambda: {thing: 1}[thing]),
        "again": getattr(holder, last) is thing,
        "attribute": look(lambda: (setattr(thing, "_mine", 1), thing._mine, delattr(thing, "_mine"))[1]),
        "error": raised(thing),
    }


def raised(thing):
    """The error of a call without arguments, and the frames that its traceback shows."""

    class NoSuch:
        pass

    try:
        thing(nothing_of_this_name=NoSuch())
    except BaseException as error:
        return [
            type(error).__name__,
            str(error).splitlines()[0],
            [f.name for f in traceback.extract_tb(error.__traceback__)],
        ]
    return None


class Deep(torch.optim.lr_scheduler.StepLR):
    def get_lr(self):
        self.frames = [f.name for f in traceback.extract_stack()]
        return super().get_lr()

    def step(self, *args):
        return super().step(*args)


def helper(x: int) -> int:
    return x + 1


class Frames:
    """What save, next and step see below them."""

    def __reduce__(self):
        Frames.seen = [f.name for f in traceback.extract_stack()]
        return (int, ())


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, i):
        Data.seen = [f.name for f in traceback.extract_stack()]
        return i


def script_class():
    @torch.jit.script
    class Foo:
        def __init__(self, x: int):
            self.x = helper(x)

    return Foo.__name__


def behaviour():
    import io
    import warnings

    parameter = torch.nn.Parameter(torch.ones(2))
    scheduler = Deep(torch.optim.SGD([parameter], lr=0.1), 1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scheduler.step()
        scheduler.step(3)
    said = [(w.filename.rpartition("/")[2], w.lineno, str(w.message)[:40]) for w in caught]
    torch.save(Frames(), io.BytesIO())
    for _ in torch.utils.data.DataLoader(Data()):
        pass
    method = torch.optim.lr_scheduler.StepLR.step
    own = torch.optim.lr_scheduler.StepLR(torch.optim.SGD([parameter], lr=0.1), 1)
    return {
        "script": look(script_class),
        "scheduler": scheduler.frames,
        "warned": said,
        "save": Frames.seen,
        "data": Data.seen,
        "func": own.step.__func__ is method,
        "scheduler_pickles": look(lambda: pickle.loads(pickle.dumps(own)).state_dict()["last_epoch"]),
        "scheduler_copies": look(lambda: copy.deepcopy(own).state_dict()["last_epoch"]),
        "excepthooks": [sys.excepthook is sys.__excepthook__, threading.excepthook is threading.__excepthook__],
        "same": [torch.save is torch.serialization.save, dist.new_group is dist.distributed_c10d.new_group],
    }


print(json.dumps({name: look(lambda: described(name)) for name in REPLACED} | {"behaviour": behaviour()}))

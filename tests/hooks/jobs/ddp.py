"""DDP and eager collectives on gloo, in sections. Rank 1 needs 50 ms more in the middle of backward in one of them.
Arguments name the parts to run, none = all; "--plain" takes the hooks of process groups away, which torch before 2.14
does not have. A training part answers with its steps and weights."""

import time

import torch.distributed as dist
from common import *
from torch.nn.parallel import DistributedDataParallel as DDP

if "--plain" in sys.argv:
    sys.argv.remove("--plain")
    for name in ("register_pre_hook", "register_post_hook"):
        delattr(dist.ProcessGroup, name)
dist.init_process_group("gloo")
W = dist.get_world_size()


class Slow(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, seconds):
        ctx.seconds = seconds
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        time.sleep(ctx.seconds)
        return g, None


class Deep(nn.Module):
    def __init__(self, seconds):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(256, 256) for _ in range(12))
        self.seconds = seconds

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = torch.relu(layer(x))
            if i == 6:
                x = Slow.apply(x, self.seconds)
        return x


def straggler():
    torch.manual_seed(0)
    m = DDP(Deep(0.05 if RANK == 1 else 0), bucket_cap_mb=0.5)
    o = torch.optim.SGD(m.parameters(), 0.01)
    for _ in range(12):
        m(torch.randn(32, 256)).pow(2).mean().backward()
        o.step()
        o.zero_grad()
    return 12, digest(m)


def no_sync():
    torch.manual_seed(0)
    m = DDP(net())
    o = torch.optim.SGD(m.parameters(), 0.01)
    for step in range(10):
        for micro in range(4):
            with m.no_sync() if micro < 3 else contextlib.nullcontext():
                m(torch.randn(4, 8)).mean().backward()
        o.step()
        o.zero_grad()
    return 10, digest(m)


def barriers():
    """Rank 1 is late at each."""
    for _ in range(4):
        time.sleep(0.05 if RANK == 1 else 0)
        dist.barrier()
        dist.all_reduce(torch.ones(8))
    return "ok"


def buffers():
    """Rank 1 is late at the forward: before it DDP sends the buffers of rank 0 to all."""
    torch.manual_seed(0)
    m = DDP(nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8)))
    o = torch.optim.SGD(m.parameters(), 0.01)
    for _ in range(10):
        time.sleep(0.05 if RANK == 1 else 0)
        m(torch.randn(4, 8)).mean().backward()
        o.step()
        o.zero_grad()
    return 10, digest(m)


def eager():
    x = torch.ones(8)
    dist.all_reduce(x)
    dist.broadcast(x, 0)
    dist.barrier()
    dist.all_gather([torch.empty(8) for _ in range(W)], x)
    dist.all_gather_into_tensor(torch.empty(8 * W), x)
    dist.reduce_scatter_tensor(torch.empty(8 // W), x)
    dist.all_gather_object([None] * W, {"a": 1})
    return "ok"


def monitored():
    dist.monitored_barrier()
    return "ok"


def asynchronous():
    """Handles waited for in the reverse of the order of issue."""
    for _ in range(4):
        works = [dist.all_reduce(torch.ones(8 * (i + 1)), async_op=True) for i in range(3)]
        for work in reversed(works):
            work.wait()
        o = torch.optim.SGD([nn.Parameter(torch.ones(1))], 0.01)
        o.step()  # a step boundary: post hooks come after the first wait that nothing announced
    return "ok"


def sub_group():
    group = dist.new_group(list(range(W)), group_desc="tp")
    for _ in range(3):
        dist.all_reduce(torch.ones(4), group=group)
    return "ok"


def point_to_point():
    x = torch.ones(16)
    for _ in range(3):
        if RANK == 0:
            dist.send(x, 1)
        elif RANK == 1:
            dist.recv(x, 0)
    peer = 1 - RANK
    if RANK < 2:
        ops = [dist.P2POp(dist.isend, x, peer), dist.P2POp(dist.irecv, torch.empty(16), peer)]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
    return "ok"


for part in (straggler, no_sync, buffers, barriers, eager, monitored, asynchronous, sub_group, point_to_point):
    if sys.argv[1:] and part.__name__ not in sys.argv:
        continue
    with section(part.__name__):
        result = part()
    say(**{f"{part.__name__}{RANK}": result})
time.sleep(0.3)
dist.destroy_process_group()
time.sleep(0.5)

"""Four ranks: FSDP2 on a dp × tp mesh, tensor parallelism, a pipeline; two of them late. Arguments: parts to run.
A part answers with its steps and weights."""

import time

import torch.distributed as dist
from common import *
from torch.distributed.device_mesh import init_device_mesh

dist.init_process_group("gloo")
W = dist.get_world_size()
mesh = init_device_mesh("cpu", (2, W // 2), mesh_dim_names=("dp", "tp"))


def fsdp():
    """Rank 1 is 40 ms late in the forward of block 2: its dp peer is rank 1 + W // 2."""
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(0)
    m = nn.Sequential(*[nn.Sequential(nn.Linear(128, 128), nn.ReLU()) for _ in range(4)])
    for block in m:
        fully_shard(block, mesh=mesh["dp"])
    fully_shard(m, mesh=mesh["dp"])
    if RANK == 1:
        m[2].register_forward_pre_hook(lambda *a: time.sleep(0.04))
    o = torch.optim.SGD(m.parameters(), 0.01)
    for _ in range(8):
        m(torch.randn(8, 128)).sum().backward()
        o.step()
        o.zero_grad()
    return 8, digest(m)


def fsdp1():
    """FullyShardedDataParallel, a unit per layer, accumulation by no_sync."""
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    torch.manual_seed(0)
    m = FSDP(
        nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32)),
        auto_wrap_policy=ModuleWrapPolicy({nn.Linear}),
        device_id=torch.device("cpu"),
    )
    o = torch.optim.SGD(m.parameters(), 0.01)
    for _ in range(6):
        with m.no_sync():
            m(torch.randn(8, 32)).pow(2).mean().backward()
        m(torch.randn(8, 32)).pow(2).mean().backward()
        o.step()
        o.zero_grad()
    return 6, digest(m)


def tp():
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    torch.manual_seed(0)
    m = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))
    parallelize_module(m, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    o = torch.optim.SGD(m.parameters(), 0.01)
    for _ in range(5):
        if RANK == 1:
            time.sleep(0.03)
        m(torch.randn(4, 16)).sum().backward()
        o.step()
        o.zero_grad()
    return 5, digest(m)


def pp():
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    group = init_device_mesh("cpu", (W,), mesh_dim_names=("pp",)).get_group()
    torch.manual_seed(RANK)
    stage = PipelineStage(nn.Linear(8, 8), RANK, W, torch.device("cpu"), group=group)
    schedule = ScheduleGPipe(stage, 2, loss_fn=lambda y, t: (y - t).pow(2).mean())
    o = torch.optim.SGD(stage.submod.parameters(), 0.01)
    x = torch.randn(4, 8)
    for _ in range(3):
        if RANK == 0:
            schedule.step(x)
        elif RANK == W - 1:
            schedule.step(target=x)
        else:
            schedule.step()
        o.step()
        o.zero_grad()
    return 3, digest(stage.submod)


def ddp_stamped():
    """Completion stamps are asked for as the agent does, by the control word, in the middle of the run."""
    from torch.nn.parallel import DistributedDataParallel as DDP

    m = DDP(net())
    o = torch.optim.SGD(m.parameters(), 0.01)
    for step in range(20):
        if step == 8 and os.environ.get("STEPSCOPE_SHM"):
            from stepscope import _native

            with open(_native.path(), "r+b", buffering=0) as f:
                f.seek(384)
                f.write((_native.counters()[0] + 6).to_bytes(8, "little"))
        m(torch.randn(4, 8)).mean().backward()
        dist.reduce_scatter_tensor(torch.empty(2), torch.ones(2 * W))
        o.step()
        o.zero_grad()
    time.sleep(0.2)
    return 20, digest(m)


for part in (fsdp, fsdp1, tp, pp, ddp_stamped):
    if part.__name__ in sys.argv[1:]:
        with section(part.__name__):
            result = part()
        say(**{f"{part.__name__}{RANK}": result})
time.sleep(0.5)
dist.barrier()
dist.destroy_process_group()
time.sleep(0.5)

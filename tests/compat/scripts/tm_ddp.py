"""Two ranks, as TraceML's DDP example: rank 1 is slower in its forward."""

import time

import torch
import torch.distributed as dist
import traceml
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

traceml.init(mode="auto")
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 2))

    def forward(self, x):
        if rank == 1:
            time.sleep(0.02)
        return self.net(x)


model = DDP(Net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = TensorDataset(torch.randn(960, 32), torch.randint(0, 2, (960,)))
loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data))
for x, y in loader:
    with traceml.trace_step(model):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
dist.barrier()
summary = traceml.final_summary(timeout_sec=30, rank0_only=True)
print(f"RANK{rank} {'none' if summary is None else summary['meta']['world_size']}", flush=True)
dist.destroy_process_group()

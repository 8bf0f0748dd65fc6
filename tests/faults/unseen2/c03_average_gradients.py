"""Gradients are averaged by hand, one all_reduce per parameter tensor, in a deep and narrow net.

What happens: the tutorial's `average_gradients()` loops over the 132 parameters of a net of 32 residual blocks of
width 96; each of the tiny tensors has its own blocking all_reduce after backward, so latency, not bytes, is paid.
Who causes it: the loop on both ranks alike; no rank is late.  What is lost: a fifth to four fifths of the step.
Right advice: reduce one flat tensor (or a few buckets), as DDP does, which also overlaps it with backward.
REPORT_FAULT=0: all gradients travel in one flat tensor.
"""
import os
import time

import torch
import torch.distributed as dist
from torch import nn

FLAT = os.environ.get("REPORT_FAULT", "1") == "0"
STEPS = 260


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        return x + 0.1 * torch.tanh(self.linear(self.norm(x)))


def average_gradients(model):
    size = float(dist.get_world_size())
    if FLAT:
        grads = [p.grad for p in model.parameters()]
        flat = torch.cat([g.reshape(-1) for g in grads])
        dist.all_reduce(flat)
        flat /= size
        for g, new in zip(grads, flat.split([g.numel() for g in grads])):
            g.copy_(new.view_as(g))
        return
    for param in model.parameters():
        dist.all_reduce(param.grad.data, op=dist.ReduceOp.SUM)
        param.grad.data /= size


def run(rank):
    torch.manual_seed(1234)
    model = nn.Sequential(nn.Linear(32, 96), *[Block(96) for _ in range(32)], nn.Linear(96, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
    generator = torch.Generator().manual_seed(rank)
    spent = 0.0
    dist.barrier()
    begin = time.perf_counter()
    for step in range(STEPS):
        x = torch.randn(160, 32, generator=generator)
        y = torch.sin(x.sum(1, keepdim=True))
        optimizer.zero_grad()
        loss = nn.functional.smooth_l1_loss(model(x), y)
        loss.backward()
        t0 = time.perf_counter()
        average_gradients(model)
        spent += time.perf_counter() - t0
        optimizer.step()
        if rank == 0 and step % 60 == 0:
            print(f"Rank {rank}, step {step}: {loss.item():.4f}", flush=True)
    total = time.perf_counter() - begin
    n = len(list(model.parameters()))
    print(f"REPORT rank={rank} loop_s={total:.2f} steps={STEPS} tensors={n} cpu_s={time.thread_time():.2f}", flush=True)
    print(f"REPORT rank={rank} lost_s={spent:.2f} share={spent / total:.3f} (time in average_gradients)", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    run(dist.get_rank())
    dist.destroy_process_group()

"""Healthy: a backbone is frozen for 80 steps, then trained as well, as the recipe of the fine-tuning says.

What looks like a fault: from step 80 on a step takes about twice as long, backward and the all-reduce above all, and
memory goes up once by the optimizer state of the backbone.
What is true: planned, on both ranks alike; nothing waits and nothing is lost.
Right advice: none; if anything, that the longer step comes from more trained parameters.
REPORT_FAULT=0: the backbone is trained from the first step on.
"""
import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

FROZEN = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, THAW, BATCH = 170, 80, 16


def backbone():
    layers, channels = [], 3
    for width in (24, 48, 64):
        layers += [nn.Conv2d(channels, width, 3, 2, 1), nn.GroupNorm(4, width), nn.ReLU(),
                   nn.Conv2d(width, width, 3, 1, 1), nn.GroupNorm(4, width), nn.ReLU()]
        channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())


def trained(model, frozen):
    """DDP and AdamW over what is trained now."""
    model[0].requires_grad_(not frozen)
    wrapped = DDP(model)
    return wrapped, torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 1e-3)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(backbone(), nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 8)))
    wrapped, optimizer = trained(model, FROZEN)
    torch.manual_seed(rank + 1)
    durations, start, cpu = [], time.perf_counter(), time.process_time()
    for step in range(STEPS):
        began = time.perf_counter()
        if FROZEN and step == THAW:
            wrapped, optimizer = trained(model, False)
        x = torch.randn(BATCH, 3, 64, 64)
        loss = nn.functional.cross_entropy(wrapped(x), (x.mean((1, 2, 3)) > 0).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        durations.append(time.perf_counter() - began)
        if rank == 0 and step % 40 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
    print(f"rank {rank}: loop {time.perf_counter() - start:.2f} s, CPU {time.process_time() - cpu:.2f} s, "
          f"median step {1e3 * statistics.median(durations[:THAW]):.1f} ms before step {THAW}, "
          f"{1e3 * statistics.median(durations[THAW:]):.1f} ms after")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

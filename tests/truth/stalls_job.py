#!/usr/bin/env python3
"""Two ranks or more of which a random one is late to the gradients' all-reduce, by a random time; no word of stepscope in it.

--mode eager: the gradients are reduced by one dist.all_reduce after backward, and every rank notes when it came and when it
went (CLOCK_MONOTONIC, one host): who waited how long, and how long the data took once all were there, is known exactly.
--mode ddp: DistributedDataParallel reduces inside of backward; what is known is the delay itself.

Prints one line per rank: TRUTH rank=… wait_ms=… transfer_ms=… (sums over all steps; transfer nan with ddp).
"""

import argparse
import os
import random
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
p = argparse.ArgumentParser()
p.add_argument("--mode", choices=("eager", "ddp"), required=True)
p.add_argument("--steps", type=int, default=120)
p.add_argument("--mean-ms", type=float, default=40)
p.add_argument("--width", type=int, default=2000, help="16 MB of gradients")
p.add_argument("--seed", type=int, default=1)
p.add_argument("--always", type=int, help="it is this rank that is late, in every step")
A = p.parse_args()

rng = random.Random(A.seed)
late = [
    (rng.randrange(WORLD) if A.always is None else A.always, rng.expovariate(1 / A.mean_ms)) for _ in range(A.steps)
]
delays = [[ms if rank == who else 0.0 for rank in range(WORLD)] for who, ms in late]
now = 0


class Slow(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        time.sleep(delays[now][RANK] / 1e3)
        return grad


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(A.width, A.width, bias=False)

    def forward(self, x):
        return Slow.apply(self.layer(x))  # backward: the delay, then the layer's gradient


def main():
    global now
    torch.manual_seed(RANK)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    net = Net()
    model = DistributedDataParallel(net) if A.mode == "ddp" else net
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    came, went = [], []
    for now in range(A.steps):  # noqa: B007 Slow.backward reads it
        optimizer.zero_grad()
        model(torch.randn(4, A.width)).square().mean().backward()
        if A.mode == "eager":
            grad = net.layer.weight.grad
            came.append(time.monotonic())
            dist.all_reduce(grad)
            went.append(time.monotonic())
        optimizer.step()
    if A.mode == "ddp":
        wait_ms = sum(max(row) - row[RANK] for row in delays)
        print(f"TRUTH rank={RANK} wait_ms={wait_ms:.3f} transfer_ms=nan", flush=True)
    else:
        everyone = [None] * WORLD
        dist.all_gather_object(everyone, came)
        last = [max(row) for row in zip(*everyone)]
        wait_ms = 1e3 * sum(t - c for t, c in zip(last, came))
        transfer_ms = 1e3 * sum(w - t for w, t in zip(went, last))
        print(f"TRUTH rank={RANK} wait_ms={wait_ms:.3f} transfer_ms={transfer_ms:.3f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


main()

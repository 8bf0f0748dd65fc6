#!/usr/bin/env python3
"""A DDP job that passes through every category of the ledger, and may spend `--ms` more in one of them, once, on one rank.

Prints its own clock (CLOCK_MONOTONIC seconds): TRUTH lines with process start, first step begin, last step end, and what the
injection really took.
"""

import argparse
import contextlib
import datetime
import gc
import io
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

RANK, WORLD = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
PLACES = (
    "none",
    "input_wait",
    "h2d",
    "forward",
    "backward",
    "optimizer",
    "straggler_wait",
    "host_pause",
    "compile",
    "checkpoint",
    "validation",
    "validation_inner",
    "logging",
    "epoch_start",
    "user_code",
    "startup",
    "teardown",
    "unattributed",
)
AT_STEP = 40
took = 0.0  # seconds that the injection took by our own clock


def process_start():
    """CLOCK_MONOTONIC of this process's start, to the kernel's tick (10 ms)."""
    with open("/proc/self/stat") as f:
        ticks = int(f.read().rsplit(")", 1)[1].split()[19])
    behind = time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()
    return ticks / os.sysconf("SC_CLK_TCK") - behind


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("--inject", choices=PLACES, default="none")
    p.add_argument("--ms", type=float, default=1000)
    p.add_argument("--rank", type=int, default=0, help="who spends it")
    p.add_argument("--steps", type=int, default=120)
    p.add_argument("--workers", type=int, default=0)
    p.add_argument("--compile", action="store_true")
    p.add_argument("--trace", action="store_true")
    return p.parse_args()


A = arguments()


def spend(place):
    """The one injection, where the code path is in `place`."""
    global took
    if place != A.inject or A.rank != RANK or took:
        return
    begin = time.monotonic()
    time.sleep(A.ms / 1e3)
    took = time.monotonic() - begin


class Data(Dataset):
    def __init__(self, count, place, slow_batch):
        self.count, self.place, self.slow_batch, self.fetched = count, place, slow_batch, 0
        self.x = torch.randn(256, 64)

    def __len__(self):
        return self.count

    def __getitems__(self, ids):
        time.sleep(0.001)
        if self.fetched == self.slow_batch:
            spend(self.place)
        self.fetched += 1
        return self.x[torch.tensor(ids) % 256]


class Slow(nn.Module):
    """2 ms, and the injection at its step, in forward; the same in backward."""

    def forward(self, x):
        time.sleep(0.002)
        if now[0] == AT_STEP:
            spend("forward" if torch.is_grad_enabled() else "")
            if A.inject == "host_pause" and A.rank == RANK:
                Cycle()
        return SlowBackward.apply(x)


class SlowBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        time.sleep(0.002)
        if now[0] == AT_STEP:
            spend("backward")
            spend("straggler_wait")
        return grad


class Cycle:
    """Garbage that only the collector finds, and that is slow to go."""

    def __init__(self):
        self.me = self

    def __del__(self):
        spend("host_pause")


class SlowPickle:
    def __reduce__(self):
        if now[0] == AT_STEP:
            spend("checkpoint")
        return int, ()


class SlowSGD(torch.optim.SGD):
    def step(self, closure=None):
        time.sleep(0.002)
        if now[0] == AT_STEP:
            spend("optimizer")
        return super().step(closure)


now = [-1]


def slow_backend(graph, _inputs):
    if now[0] == AT_STEP and A.rank == RANK and A.inject == "compile":
        time.sleep(A.ms / 1e3)
    return graph.forward


def worker_init(_worker):
    spend("epoch_start")


def compile_at(step, x):
    """Startup compiles one function so that the compiler is imported; step AT_STEP compiles another."""
    global took
    scale = float(step)
    begin = time.monotonic()
    with torch.no_grad():
        fast = torch.compile(lambda t: (t * scale + 1).sum(), backend=slow_backend)
        fast(x)
        first = time.monotonic() - begin
        begin = time.monotonic()
        fast(x)
    if step == AT_STEP and A.rank == RANK:
        took = first - (time.monotonic() - begin)


def timed(call):
    begin = time.monotonic()
    call()
    return time.monotonic() - begin


def validate(model, loader):
    model.eval()
    with torch.no_grad():
        for x in loader:
            (model.module if A.inject == "validation_inner" else model)(x)
            if now[0] == AT_STEP:
                spend("validation")
                spend("validation_inner")
    model.train()


def main():
    global took
    trace, phase = contextlib.nullcontext, lambda _: contextlib.nullcontext()
    if A.trace:
        from stepscope import trace_step as trace
    if A.inject in ("h2d", "logging", "user_code"):
        from stepscope import trace_phase as phase
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if WORLD > 1:
        dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    net = nn.Sequential(nn.Linear(64, 64), Slow(), nn.Linear(64, 64))
    model = DistributedDataParallel(net) if WORLD > 1 else net
    opt = SlowSGD(model.parameters(), 0.01)
    half = A.steps // 2
    keep = dict(collate_fn=lambda batch: batch, num_workers=A.workers)
    first_epoch = DataLoader(Data(half * 16, "input_wait", AT_STEP), 16, **keep)
    second_epoch = DataLoader(
        Data((A.steps - half) * 16, "", -1), 16, worker_init_fn=worker_init if A.workers else None, **keep
    )
    checks = DataLoader(Data(4 * 16, "", -1), 16, collate_fn=lambda batch: batch)
    if A.compile:
        compile_at(0, torch.ones(8))
    gc.collect()
    gc.disable()
    spend("startup")
    if WORLD > 1:
        dist.barrier()
    batches = iter(first_epoch)
    begin = time.monotonic()
    for i in range(A.steps):
        now[0] = i
        if i == half:
            batches = iter(second_epoch)
        x = next(batches)
        with trace():
            opt.zero_grad()
            if i == AT_STEP:
                if A.compile:
                    compile_at(i, x)
                for named in ("h2d", "user_code"):
                    if A.inject == named:
                        with phase("h2d" if named == "h2d" else "augment"):
                            spend(named)
            out = model(x)
            loss = F.mse_loss(out, x)
            if i == AT_STEP and A.inject == "host_pause":
                took = timed(gc.collect)
            loss.backward()
            opt.step()
            if i == AT_STEP:
                spend("unattributed")
                if A.inject == "logging":
                    with phase("logging"):
                        spend("logging")
        end = time.monotonic()
        if i == AT_STEP:
            validate(model, checks)
            torch.save({"weights": net.state_dict(), "slow": SlowPickle()}, io.BytesIO())
    now[0] = -1
    print(
        f"TRUTH rank={RANK} pid={os.getpid()} start={process_start():.6f} begin={begin:.6f} end={end:.6f} took={took:.6f} "
        f"steps={A.steps}",
        flush=True,
    )
    spend("teardown")
    if WORLD > 1:
        time.sleep(0.3)
        dist.destroy_process_group()
        time.sleep(0.5)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""A small DDP job (gloo) with known delays: the truth behind draws.py, saving.py and kill.py.

    torchrun --nproc-per-node N job.py --steps 100 --base-ms 30 --fault 1:backward:20:sleep [--fault …] [--trace]

Each `--fault rank:phase:ms:how` adds `ms` to one phase (input, forward, backward, optimizer) of one rank in every step, as a
sleep or as real CPU work. The base of a step is the same on all ranks: a small network plus `base-ms` spread over the phases,
a share of it (`--base-work`) as CPU work. Lines that begin with TRUTH are the script's own clock (CLOCK_MONOTONIC).
"""

import argparse
import contextlib
import datetime
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

RANK, WORLD = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
SPREAD = {"input": 0.05, "forward": 0.35, "backward": 0.5, "optimizer": 0.1}  # of base-ms


def sleep_ms(ms):
    if ms > 0:
        time.sleep(ms / 1e3)


def work_ms(ms):
    """CPU time of this thread, so that a shared core makes it longer, as real work would be."""
    end = time.thread_time() + ms / 1e3
    while time.thread_time() < end:
        sum(range(200))


class Delay:
    """What one phase costs on this rank: base and faults."""

    def __init__(self, args, phase):
        base = args.base_ms * SPREAD[phase]
        self.sleep, self.work = base * (1 - args.base_work), base * args.base_work
        for rank, where, ms, how in args.faults:
            if rank == RANK and where == phase:
                if how == "sleep":
                    self.sleep += ms
                else:
                    self.work += ms

    def __call__(self):
        sleep_ms(self.sleep)
        work_ms(self.work)


class Data(Dataset):
    def __init__(self, count, delay):
        g = torch.Generator().manual_seed(1)
        self.count, self.delay = count, delay
        self.x, self.y = torch.randn(256, 128, generator=g), torch.randn(256, 128, generator=g)

    def __len__(self):
        return self.count

    def __getitems__(self, ids):
        self.delay()
        at = torch.tensor(ids) % 256
        return self.x[at], self.y[at]


class SlowBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, delay):
        ctx.delay = delay
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        ctx.delay()
        return grad, None


class Net(nn.Module):
    """The delays sit in the middle of the layers."""

    def __init__(self, forward_delay, backward_delay):
        super().__init__()
        self.head = nn.Sequential(*[m for _ in range(3) for m in (nn.Linear(128, 128), nn.Tanh())])
        self.tail = nn.Sequential(*[m for _ in range(3) for m in (nn.Linear(128, 128), nn.Tanh())])
        self.forward_delay, self.backward_delay = forward_delay, backward_delay

    def forward(self, x):
        x = self.head(x)
        self.forward_delay()
        return self.tail(SlowBackward.apply(x, self.backward_delay))


class SlowSGD(torch.optim.SGD):
    def __init__(self, params, lr, delay):
        super().__init__(params, lr)
        self.delay = delay

    def step(self, closure=None):
        self.delay()
        return super().step(closure)


def fault(text):
    rank, phase, ms, how = text.split(":")
    if phase not in SPREAD or how not in ("sleep", "work"):
        raise argparse.ArgumentTypeError(text)
    return int(rank), phase, float(ms), how


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=100)
    p.add_argument("--base-ms", type=float, default=25)
    p.add_argument("--base-work", type=float, default=0.2)
    p.add_argument("--fault", dest="faults", type=fault, action="append", default=[])
    p.add_argument("--trace", action="store_true", help="trace_step around the body")
    p.add_argument("--say-every", type=int, default=0, help="a TRUTH line each so many steps")
    p.add_argument("--seed", type=int, default=0)
    return p.parse_args()


def main():
    args = arguments()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    trace = lambda: contextlib.nullcontext()  # noqa: E731
    if args.trace:
        from stepscope import trace_step as trace
    if WORLD > 1:
        dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    net = Net(Delay(args, "forward"), Delay(args, "backward"))
    model = DistributedDataParallel(net, bucket_cap_mb=0.1) if WORLD > 1 else net
    opt = SlowSGD(model.parameters(), 0.01, Delay(args, "optimizer"))
    batches = DataLoader(Data(args.steps * 32, Delay(args, "input")), 32, collate_fn=lambda batch: batch)
    marks = [time.monotonic()]
    print(f"TRUTH rank={RANK} pid={os.getpid()} begin={marks[0]:.6f}", flush=True)
    for i, (x, y) in enumerate(batches):
        with trace():
            opt.zero_grad()
            F.mse_loss(model(x), y).backward()
            opt.step()
        marks.append(time.monotonic())
        if args.say_every and i % args.say_every == 0:
            print(f"TRUTH rank={RANK} step={i} at={marks[-1]:.6f}", flush=True)
    steps = sorted(b - a for a, b in zip(marks, marks[1:]))
    print(
        f"TRUTH rank={RANK} done={len(steps)} wall_s={marks[-1] - marks[0]:.6f} p50_ms={1e3 * steps[len(steps) // 2]:.3f} "
        f"end={marks[-1]:.6f}",
        flush=True,
    )
    if WORLD > 1:  # gloo's threads abort now and then when ranks leave at once
        time.sleep(0.3)
        dist.destroy_process_group()
        time.sleep(0.5)


if __name__ == "__main__":
    main()

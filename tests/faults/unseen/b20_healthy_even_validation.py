# b20_healthy_even_validation: healthy: long validation each epoch, but sharded evenly over both ranks; conv net, GradScaler-like skipped steps
#
# TRUTH: {'kind': ['balanced', 'compute-bound', 'validation-heavy'], 'cause': ['healthy', 'validation on all ranks evenly'], 'rank': None, 'phase': None, 'first_step': None, 'lost_share': [0.0, 0.1], 'must_not': ['comm-bound', 'compute-straggler', 'straggler', 'input-straggler', 'load-imbalance', 'step-time-drift', 'step-time-change', 'gc-pause', 'pause-straggler', 'checkpoint-stall', 'epoch-start-stall']}
#
# What happens: Four epochs of 30 steps, each followed by about a second of validation that both ranks share evenly with one all-reduce; nobody waits for anybody. Some early steps skip the optimizer (loss-scale search), as with AMP.
# Advice: Nothing is wrong; at most validate less often (validation is some fifth of the time: validation-heavy as information is right, as a straggler or stall it is wrong).
#
# Source:  tier4/Diffusion-Planner PR#337 (the repaired state); AMP GradScaler skipping steps
# Launch:  torchrun --nproc-per-node 2 b20_healthy_even_validation.py
# Control: REPORT_FAULT=0: a validation set of a fifth
import os, statistics, time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

FAULT = os.environ.get("REPORT_FAULT", "1") != "0"
RANK, WORLD = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))


class Meter:
    """What the job itself measures: wall and own-thread CPU time per step, and named pieces of work (ms)."""

    def __init__(self):
        self.life, self.last, self.wall, self.cpu, self.parts = time.perf_counter(), None, [], [], {}

    def tick(self):
        now = time.perf_counter(), time.thread_time()
        if self.last:
            self.wall.append(1e3 * (now[0] - self.last[0]))
            self.cpu.append(1e3 * (now[1] - self.last[1]))
        self.last = now

    def add(self, name, begun):
        self.parts.setdefault(name, []).append(1e3 * (time.perf_counter() - begun))

    def report(self, split=None, **more):
        line = f"REPORT fault={int(FAULT)} rank={RANK} steps={len(self.wall)} loop_s={sum(self.wall) / 1e3:.1f} "
        line += f"wall_median_ms={statistics.median(self.wall):.1f} wall_mean_ms={statistics.mean(self.wall):.1f} "
        line += f"own_cpu_median_ms={statistics.median(self.cpu):.1f} own_cpu_mean_ms={statistics.mean(self.cpu):.1f}"
        if split and split < len(self.wall) - 1:
            line += f" before_{split}_median_ms={statistics.median(self.wall[1:split]):.1f} after_{split}_median_ms={statistics.median(self.wall[split:]):.1f}"
        for name, ms in self.parts.items():
            line += f" {name}_n={len(ms)} {name}_median_ms={statistics.median(ms):.1f} {name}_total_s={sum(ms) / 1e3:.2f}"
        print(line + "".join(f" {k}={v}" for k, v in more.items()), flush=True)


def finish():
    time.sleep(0.3)
    dist.destroy_process_group()
    time.sleep(0.3)


EPOCHS, PER_EPOCH, BATCH = 4, 30, 16
VALIDATION = (28 if FAULT else 6) * BATCH * WORLD


def data(n, seed):
    g = torch.Generator().manual_seed(seed)
    return TensorDataset(torch.randn(n, 3, 32, 32, generator=g), torch.randint(0, 10, (n,), generator=g))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 32, 3, 1, 1), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.BatchNorm2d(64), nn.ReLU(), nn.Conv2d(64, 64, 3, 1, 1), nn.BatchNorm2d(64), nn.ReLU())
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


class Scaler:
    """As GradScaler: the scale is halved and the step skipped when gradients overflow."""

    def __init__(self):
        self.scale, self.skipped = 2.0**60, 0

    def step(self, opt, parameters):
        finite = all(torch.isfinite(p.grad.half()).all() for p in parameters)
        if not finite:
            self.scale, self.skipped = self.scale / 256, self.skipped + 1
            return
        for p in parameters:
            p.grad.div_(self.scale)
        opt.step()


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    train, held_out = data(PER_EPOCH * BATCH * WORLD, 1), data(VALIDATION, 2)
    sampler = DistributedSampler(train)
    loader = DataLoader(train, BATCH, sampler=sampler)
    validation = DataLoader(held_out, BATCH, sampler=DistributedSampler(held_out, shuffle=False))
    model = DDP(Net())
    opt, scaler, meter = torch.optim.SGD(model.parameters(), 0.05), Scaler(), Meter()
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        model.train()
        for x, y in loader:
            meter.tick()
            opt.zero_grad()
            (F.cross_entropy(model(x), y) * scaler.scale).backward()
            scaler.step(opt, list(model.parameters()))
        begun = time.perf_counter()
        model.eval()
        right = torch.zeros(2)
        with torch.inference_mode():
            for x, y in validation:
                right += torch.tensor([float((model.module(x).argmax(1) == y).sum()), len(y)])
        meter.add("validation_own", begun)
        dist.all_reduce(right)
        meter.add("validation", begun)
    meter.tick()
    meter.report(skipped=scaler.skipped, accuracy=f"{right[0] / right[1]:.3f}")
    finish()


if __name__ == "__main__":
    main()

# b19_healthy_fsdp_heavy: healthy: heavy but even computation under FSDP2 (fully_shard), scheduler stepped before the optimizer
#
# TRUTH: {'kind': ['balanced', 'compute-bound'], 'cause': ['healthy', 'compute dominates, evenly'], 'rank': None, 'phase': None, 'first_step': None, 'lost_share': [0.0, 0.08], 'must_not': ['comm-bound', 'compute-straggler', 'straggler', 'input-straggler', 'input-bound', 'load-imbalance', 'step-time-drift', 'step-time-change', 'gc-pause', 'pause-straggler', 'host-bound', 'extra-collectives']}
#
# What happens: Steps of some 250 ms are nearly all matrix products, equal on both ranks; the all-gathers and reduce-scatters of FSDP are small against them. (lr_scheduler.step() before optimizer.step() is a warning of PyTorch, not a loss of time.)
# Advice: Nothing to repair; only faster hardware, lower precision or a smaller model would help. The scheduler's order should be put right.
#
# Source:  'DDP slow' questions that turn out to be compute, e.g. shubham-goel/4D-Humans#139
# Launch:  torchrun --nproc-per-node 2 b19_healthy_fsdp_heavy.py
# Control: REPORT_FAULT=0: a smaller batch, otherwise the same
import os, statistics, time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

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


STEPS, BATCH, DIM = 70, (1280 if FAULT else 896), 384
STEPS = int(os.environ.get("REPORT_STEPS", STEPS))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(DIM), nn.Linear(DIM, 2 * DIM), nn.Linear(2 * DIM, DIM)

    def forward(self, x):
        return x + self.down(F.silu(self.up(self.norm(x))))


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (WORLD,))
    net = nn.Sequential(nn.Linear(64, DIM), Block(), Block(), Block(), nn.Linear(DIM, 64))
    for part in net:
        if isinstance(part, Block):
            fully_shard(part, mesh=mesh)
    fully_shard(net, mesh=mesh)
    opt = torch.optim.AdamW(net.parameters(), 1e-4)
    schedule = torch.optim.lr_scheduler.StepLR(opt, 50)
    meter, g = Meter(), torch.Generator().manual_seed(RANK)
    for _ in range(STEPS):
        meter.tick()
        x = torch.randn(BATCH, 64, generator=g)
        schedule.step()
        opt.zero_grad()
        F.mse_loss(net(x), x).backward()
        opt.step()
    meter.tick()
    meter.report()
    finish()


if __name__ == "__main__":
    main()

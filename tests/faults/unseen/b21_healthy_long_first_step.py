# b21_healthy_long_first_step: healthy: the very first step takes four seconds on all ranks (tables are built once), the rest is even
#
# TRUTH: {'kind': ['balanced', 'compute-bound', 'warmup'], 'cause': ['healthy', 'one-time warm-up in the first step'], 'rank': None, 'phase': None, 'first_step': 0, 'lost_share': [0.0, 0.3], 'must_not': ['comm-bound', 'compute-straggler', 'straggler', 'input-straggler', 'input-bound', 'load-imbalance', 'step-time-drift', 'step-time-change', 'step-time-jitter', 'gc-pause', 'pause-straggler', 'hang', 'validation-heavy']}
#
# What happens: The first forward builds a table (as compilation or autotuning would) for 4 s on both ranks alike; step 1 and all later ones are even and cheap. Lost share is the 4 s of this short run, which is 0 in a run of normal length.
# Advice: Exclude the first step from any statistics (warm-up); for short jobs cache the table. slow-start as information is acceptable.
#
# Source:  chengzeyi/stable-fast#98, KellerJordan/modded-nanogpt#19 (first steps after compilation)
# Launch:  torchrun --nproc-per-node 2 b21_healthy_long_first_step.py
# Control: REPORT_FAULT=0: the table comes from a file (0.1 s)
import os, statistics, time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

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


STEPS, BATCH, N, DIM = 130, 32, 64, 96
STEPS = int(os.environ.get("REPORT_STEPS", STEPS))


class Spectral(nn.Module):
    """Mixes tokens by a fixed basis that is searched for at first use."""

    def __init__(self):
        super().__init__()
        self.basis, self.proj = None, nn.Linear(DIM, DIM)

    def build(self, seconds):
        best, until = None, time.perf_counter() + seconds
        g = torch.Generator().manual_seed(0)
        while best is None or time.perf_counter() < until:
            q, _ = torch.linalg.qr(torch.randn(256, 256, generator=g))
            best = q[:N, :N] if best is None else best
        return best

    def forward(self, x):
        if self.basis is None:
            self.basis = self.build(2.0 if FAULT else 0.05)
        return x + self.proj(self.basis @ x)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    feed = lambda: nn.Sequential(nn.LayerNorm(DIM), nn.Linear(DIM, 512), nn.GELU(), nn.Linear(512, DIM))
    model = DDP(nn.Sequential(nn.Linear(24, DIM), Spectral(), feed(), Spectral(), feed(), nn.Linear(DIM, 24)))
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    meter, g = Meter(), torch.Generator().manual_seed(RANK)
    for _ in range(STEPS):
        meter.tick()
        x = torch.randn(BATCH, N, 24, generator=g)
        opt.zero_grad()
        F.mse_loss(model(x), x.flip(1)).backward()
        opt.step()
    meter.tick()
    meter.report(first_step_ms=f"{meter.wall[0]:.0f}", second_step_ms=f"{meter.wall[1]:.0f}")
    finish()


if __name__ == "__main__":
    main()

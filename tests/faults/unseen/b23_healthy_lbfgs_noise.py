# b23_healthy_lbfgs_noise: healthy: L-BFGS with several closure evaluations per step and random extra work within 5 % on each rank
#
# TRUTH: {'kind': ['balanced', 'compute-bound'], 'cause': ['healthy', 'noise within 5 %'], 'rank': None, 'phase': None, 'first_step': None, 'lost_share': [0.0, 0.08], 'must_not': ['comm-bound', 'compute-straggler', 'straggler', 'input-straggler', 'input-bound', 'load-imbalance', 'step-time-jitter', 'step-time-drift', 'step-time-change', 'gc-pause', 'pause-straggler', 'extra-collectives']}
#
# What happens: A physics-informed net is fitted by L-BFGS: optimizer.step(closure) runs forward and backward (with its all-reduce) four times; each evaluation has between 0 and 5 % of extra work that differs by rank and step.
# Advice: Nothing to repair. Four backward passes per optimizer step belong to L-BFGS, they are no forgotten no_sync.
#
# Source:  Lightning-AI/pytorch-lightning#4188; NeuroDiffGym/neurodiffeq#159
# Launch:  torchrun --nproc-per-node 2 b23_healthy_lbfgs_noise.py
# Control: REPORT_FAULT=0: no extra work
import os, random, statistics, time
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


STEPS, POINTS = 80, 640
STEPS = int(os.environ.get("REPORT_STEPS", STEPS))


class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 300), nn.Tanh(), nn.Linear(300, 300), nn.Tanh(), nn.Linear(300, 300), nn.Tanh(), nn.Linear(300, 1))

    def forward(self, p):
        return self.net(p)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    model, dice = DDP(Field()), random.Random(40 + RANK)
    opt = torch.optim.LBFGS(model.parameters(), lr=0.3, max_iter=4, max_eval=4, history_size=5, tolerance_grad=0, tolerance_change=0)
    meter, g, spare = Meter(), torch.Generator().manual_seed(RANK), torch.randn(64, 64)
    points = torch.rand(POINTS, 2, generator=g)
    target = torch.sin(6 * points[:, :1]) * torch.cos(4 * points[:, 1:])
    for _ in range(STEPS):
        meter.tick()

        def closure():
            opt.zero_grad()
            begun = time.perf_counter()
            out = model(points)
            if FAULT:
                until = time.thread_time() + dice.uniform(0, 0.0015)
                while time.thread_time() < until:
                    spare @ spare
            loss = F.mse_loss(out, target)
            loss.backward()
            meter.add("closure", begun)
            return loss

        opt.step(closure)
    meter.tick()
    meter.report(closures_per_step=len(meter.parts["closure"]) / STEPS, loss=f"{closure().item():.4f}")
    finish()


if __name__ == "__main__":
    main()

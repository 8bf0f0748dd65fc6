# b08_retained_graph: a running class centre is never detached: each backward walks through all former steps
#
# TRUTH: {'kind': ['step-time-drift'], 'cause': ['autograd graph grows', 'missing detach / retain_graph', 'backward gets longer every step'], 'rank': None, 'phase': 'backward', 'first_step': None, 'lost_share': [0.4, 0.85], 'must_not': ['comm-bound', 'compute-straggler', 'straggler', 'input-straggler', 'input-bound', 'load-imbalance', 'gc-pause', 'step-time-change']}
#
# What happens: centre = 0.9 * centre + 0.1 * feature.mean(0) keeps its graph (retain_graph=True hides the error), so backward grows linearly with the step on both ranks and the graphs stay in memory.
# Advice: Detach the running state (centre.detach()) and remove retain_graph=True; nothing in data or hardware has changed.
#
# Source:  TorchSim/torch-sim PR#564; pytorch/pytorch#2769; AverageMeter without detach in rabbityl/lepard#12
# Launch:  torchrun --nproc-per-node 2 b08_retained_graph.py
# Control: REPORT_FAULT=0: the centre is detached after each step
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


STEPS, BATCH = 180, 224
STEPS = int(os.environ.get("REPORT_STEPS", STEPS))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.feature = nn.Linear(256, 256)
        self.head = nn.Sequential(nn.Linear(256, 768), nn.ReLU(), nn.Linear(768, 768), nn.ReLU(), nn.Linear(768, 10))

    def forward(self, x):
        feature = torch.tanh(self.feature(x))
        return feature, self.head(feature)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    model = DDP(Net())
    opt = torch.optim.SGD(model.parameters(), 0.01)
    meter, g = Meter(), torch.Generator().manual_seed(RANK)
    centre = torch.zeros(256)
    for step in range(STEPS):
        meter.tick()
        x = torch.randn(BATCH, 256, generator=g)
        feature, out = model(x)
        centre = 0.9 * centre + 0.1 * feature.mean(0)
        loss = F.cross_entropy(out, x[:, :10].argmax(1)) + 0.01 * ((feature - centre) ** 2).mean()
        opt.zero_grad()
        begun = time.perf_counter()
        loss.backward(retain_graph=True)
        meter.add("backward_first_half" if step < STEPS // 2 else "backward_second_half", begun)
        opt.step()
        if not FAULT:
            centre = centre.detach()
    meter.tick()
    meter.report(first_20_median_ms=f"{statistics.median(meter.wall[1:21]):.1f}", last_20_median_ms=f"{statistics.median(meter.wall[-20:]):.1f}")
    finish()


if __name__ == "__main__":
    main()

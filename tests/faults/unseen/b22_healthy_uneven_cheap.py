# b22_healthy_uneven_cheap: healthy: rank 1's transform takes six times as long as rank 0's and rank 0 logs each step, all of it below 3 % of the step
#
# TRUTH: {'kind': ['balanced', 'compute-bound'], 'cause': ['healthy', 'differences between ranks are negligible'], 'rank': None, 'phase': None, 'first_step': None, 'lost_share': [0.0, 0.05], 'must_not': ['comm-bound', 'compute-straggler', 'straggler', 'input-straggler', 'input-bound', 'load-imbalance', 'logging-stall', 'checkpoint-stall', 'step-time-drift', 'gc-pause', 'pause-straggler']}
#
# What happens: Rank 1 augments its samples (some 2 ms against 0.3 ms per batch) and rank 0 prints and appends a line to a CSV file each step (well below 1 ms), but a step takes about 100 ms of even computation.
# Advice: Leave it alone: ratios between ranks are large, absolute losses are about two per cent of the step.
#
# Source:  EugenHotaj/pytorch-generative#10 ('probably slow due to logging', it was not)
# Launch:  torchrun --nproc-per-node 2 b22_healthy_uneven_cheap.py
# Control: REPORT_FAULT=0: no augmentation, a log line every 20 steps
import csv, os, statistics, tempfile, time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler

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


STEPS, BATCH = 110, 16
STEPS = int(os.environ.get("REPORT_STEPS", STEPS))


class Faces(Dataset):
    def __init__(self):
        self.x = torch.randn(512, 3, 40, 40, generator=torch.Generator().manual_seed(4))

    def __len__(self):
        return STEPS * BATCH * WORLD

    def __getitem__(self, i):
        x = self.x[i % 512]
        if FAULT and RANK == 1:
            x = torch.roll(x.flip(2), 3, 1) * 0.9 + 0.05
            x = x - x.mean()
        return x, i % 12


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    data = Faces()
    loader = DataLoader(data, BATCH, sampler=DistributedSampler(data, shuffle=True))
    net = nn.Sequential(nn.Conv2d(3, 32, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, 1, 1), nn.ReLU(), nn.Conv2d(64, 96, 3, 1, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(96 * 16, 12))
    model = DDP(net)
    opt = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    table = csv.writer(open(os.path.join(tempfile.mkdtemp(), "log.csv"), "w")) if RANK == 0 else None
    meter = Meter()
    step, begun = 0, time.perf_counter()
    for x, y in loader:
        meter.add("input", begun)
        meter.tick()
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        if table and (FAULT or step % 20 == 0):
            log = time.perf_counter()
            table.writerow([step, f"{loss.item():.4f}"])
            print(f"step {step:4d} loss {loss.item():.4f}")
            meter.add("log", log)
        step += 1
        begun = time.perf_counter()
    meter.tick()
    meter.report()
    finish()


if __name__ == "__main__":
    main()

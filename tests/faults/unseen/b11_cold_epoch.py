# b11_cold_epoch: the first epoch reads cold storage and fills an in-memory cache, the other three are fast; all ranks, no workers
#
# TRUTH: {'kind': ['input-bound', 'slow-start', 'step-time-change'], 'cause': ['cold cache', 'data loading in the first epoch', 'storage reads until step 40'], 'rank': None, 'phase': 'input', 'first_step': 0, 'lost_share': [0.12, 0.45], 'must_not': ['compute-straggler', 'straggler', 'input-straggler', 'comm-bound', 'load-imbalance', 'pause-straggler', 'step-time-drift', 'gc-pause']}
#
# What happens: Samples cost 6 ms each until they are in the cache, so the 40 steps of the first epoch wait about 95 ms for input on both ranks and steps 40 to 159 hardly wait.
# Advice: Stage or pre-fetch the data before the job (or use workers in the first epoch); a long run hardly suffers, a short one does.
#
# Source:  pytorch/pytorch PR#8371 (first epoch Data 32 s against 0.1 s); SeanNaren/deepspeech.pytorch#270
# Launch:  torchrun --nproc-per-node 2 b11_cold_epoch.py
# Control: REPORT_FAULT=0: warm storage
import os, statistics, time
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


EPOCHS, PER_EPOCH, BATCH = 4, 40, 16


class Scans(Dataset):
    def __init__(self):
        self.cache = {}

    def __len__(self):
        return PER_EPOCH * BATCH * WORLD

    def __getitem__(self, i):
        if i not in self.cache:
            if FAULT:
                time.sleep(0.006)  # the object store answers
            g = torch.Generator().manual_seed(i)
            self.cache[i] = torch.randn(1, 40, 40, generator=g), i % 5
        return self.cache[i]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 24, 5, 1, 2), nn.BatchNorm2d(24), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(24, 64, 3, 1, 1), nn.BatchNorm2d(64), nn.ReLU(), nn.Conv2d(64, 64, 3, 1, 1), nn.ReLU())
        self.head = nn.Linear(64, 5)

    def forward(self, x):
        return self.head(self.body(x).amax((2, 3)))


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    data = Scans()
    # shuffle within the rank only: the cache of a rank stays valid over the epochs
    sampler = DistributedSampler(data, shuffle=False)
    loader = DataLoader(data, BATCH, sampler=sampler)
    model = DDP(Net())
    opt = torch.optim.SGD(model.parameters(), 0.02, momentum=0.9, nesterov=True)
    meter = Meter()
    for epoch in range(EPOCHS):
        begun = time.perf_counter()
        for x, y in loader:
            meter.add(f"input_epoch_{min(epoch, 1)}", begun)
            meter.tick()
            opt.zero_grad()
            F.cross_entropy(model(x), y).backward()
            opt.step()
            begun = time.perf_counter()
    meter.tick()
    meter.report(split=PER_EPOCH)
    finish()


if __name__ == "__main__":
    main()

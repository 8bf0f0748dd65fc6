# b10_slow_worker: one of two DataLoader workers reads from a slow disk; batches are taken in order, every second one is late; all ranks
#
# TRUTH: {'kind': ['input-bound'], 'cause': ['data loading', 'DataLoader worker 1 is slow', 'slow storage of one worker'], 'rank': None, 'phase': 'input', 'first_step': 0, 'lost_share': [0.25, 0.6], 'must_not': ['compute-straggler', 'straggler', 'input-straggler', 'comm-bound', 'load-imbalance', 'pause-straggler', 'step-time-drift', 'gc-pause', 'cpu-contention']}
#
# What happens: An IterableDataset gives worker 1 the shards on a slow mount (300 ms per batch); the loader returns batches in turn, so every second step of both ranks waits for worker 1 while worker 0 idles.
# Advice: Spread the slow shards over workers, more workers/prefetch or in_order=False, or cache the slow mount; the model is not the problem.
#
# Source:  pytorch/pytorch#135409, pytorch/pytorch#105203, pytorch/pytorch PR#141833
# Launch:  torchrun --nproc-per-node 2 b10_slow_worker.py
# Control: REPORT_FAULT=0: both workers read from the fast mount
import os, statistics, time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

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


STEPS, BATCH, WORKERS = 150, 448, 2
STEPS = int(os.environ.get("REPORT_STEPS", STEPS))


class Shards(IterableDataset):
    def __iter__(self):
        worker = get_worker_info()
        torch.set_num_threads(1)
        g = torch.Generator().manual_seed(10 * RANK + worker.id)
        for i in range(STEPS * BATCH // WORKERS):
            if FAULT and worker.id == 1 and i % BATCH == 0:
                time.sleep(0.3)  # the next shard comes from the slow mount
            yield torch.randn(96, generator=g), i % 10


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    loader = DataLoader(Shards(), BATCH, num_workers=WORKERS, prefetch_factor=2)
    net = nn.Sequential(nn.Linear(96, 700), nn.ReLU(), nn.Linear(700, 700), nn.ReLU(), nn.Linear(700, 700), nn.ReLU(), nn.Linear(700, 10))
    model = DDP(net)
    opt = torch.optim.RMSprop(model.parameters(), 1e-4)
    meter, batches, step = Meter(), iter(loader), 0
    while step < STEPS:
        meter.tick()
        begun = time.perf_counter()
        x, y = next(batches)
        meter.add("wait_even" if step % 2 == 0 else "wait_odd", begun)
        opt.zero_grad()
        F.cross_entropy(model(x), y).backward()
        opt.step()
        step += 1
    meter.tick()
    meter.report()
    finish()


if __name__ == "__main__":
    main()

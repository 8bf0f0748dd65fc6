# b07_gc_collect: gc.collect() every 4 steps over a heap of a few hundred thousand Python objects (dataset index); all ranks
#
# TRUTH: {'kind': ['gc-pause'], 'cause': ['garbage collection', 'gc.collect() in the loop', 'large Python heap'], 'rank': None, 'phase': 'between steps / after the optimizer', 'first_step': 3, 'lost_share': [0.2, 0.65], 'must_not': ['comm-bound', 'compute-straggler', 'input-straggler', 'load-imbalance', 'input-bound', 'checkpoint-stall', 'validation-heavy', 'step-time-drift']}
#
# What happens: The dataset index is a few hundred thousand small dicts, lists and tuples, and the loop calls gc.collect() every fourth step 'against leaks': each call walks the whole heap on both ranks.
# Advice: Drop the explicit collection (or do it every few hundred steps), call gc.freeze() after building the index, or keep the index in arrays.
#
# Source:  facebookresearch/dinov3 PR#39; marin-community/marin PR#9224 (1.25-1.46 s per collection); NVIDIA/Megatron-Energon PR#40
# Launch:  torchrun --nproc-per-node 2 b07_gc_collect.py
# Control: REPORT_FAULT=0: no explicit collection, gc.freeze() after the index is built
import gc, os, statistics, time
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


STEPS, BATCH = 150, 24
STEPS = int(os.environ.get("REPORT_STEPS", STEPS))


def index(n):
    return [{"path": ("shard", i // 1000), "row": [i], "label": (i % 10, i)} for i in range(n)]


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 48, 3, 2, 1), nn.ReLU())
        self.head = nn.Linear(48, 10)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rows = index(60_000)
    if not FAULT:
        gc.collect()
        gc.freeze()
    model = DDP(Small())
    opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    meter, g = Meter(), torch.Generator().manual_seed(RANK)
    for step in range(STEPS):
        meter.tick()
        picked = [rows[int(i)] for i in torch.randint(0, len(rows), (BATCH,), generator=g)]
        x = torch.randn(BATCH, 3, 48, 48, generator=g)
        y = torch.tensor([row["label"][0] for row in picked])
        opt.zero_grad()
        F.cross_entropy(model(x), y).backward()
        opt.step()
        if FAULT and step % 4 == 3:
            begun = time.perf_counter()
            gc.collect()
            meter.add("collect", begun)
    meter.tick()
    meter.report(objects=len(gc.get_objects()))
    finish()


if __name__ == "__main__":
    main()

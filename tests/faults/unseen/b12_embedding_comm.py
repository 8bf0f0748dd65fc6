# b12_embedding_comm: a dense 61 MB embedding gradient is all-reduced for a batch that touches two per cent of its rows
#
# TRUTH: {'kind': ['comm-bound'], 'cause': ['gradient all-reduce', 'large embedding, dense gradient', 'too many bytes per step for the batch'], 'rank': None, 'phase': 'backward (all-reduce)', 'first_step': 0, 'lost_share': [0.35, 0.85], 'must_not': ['compute-straggler', 'straggler', 'input-straggler', 'input-bound', 'load-imbalance', 'pause-straggler', 'step-time-drift', 'gc-pause']}
#
# What happens: The recommender's table of 240000 x 64 gets a dense gradient, so each step all-reduces 61 MB over gloo (and zeroes and updates it) for 640 samples; communication takes longer than the computation, evenly on both ranks.
# Advice: Sparse gradients or row-wise sharded embeddings, larger batches or gradient accumulation with no_sync, bf16 compression hook; not a straggler.
#
# Source:  pytorch/pytorch#5309 (slow optimization with large embeddings, sparse=True helps); pytorch/pytorch PR#22037; The-AI-Summer/pytorch-ddp#1
# Launch:  torchrun --nproc-per-node 2 b12_embedding_comm.py
# Control: REPORT_FAULT=0: hashing trick: 2000 rows
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


STEPS, BATCH, FIELDS, DIM = 120, 640, 8, 64
STEPS = int(os.environ.get("REPORT_STEPS", STEPS))
ROWS = 240_000 if FAULT else 2_000


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(ROWS, DIM)
        self.deep = nn.Sequential(nn.Linear(FIELDS * DIM, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 1))

    def forward(self, ids):
        return self.deep(self.table(ids).flatten(1)).squeeze(1)


def clicks():
    g = torch.Generator().manual_seed(RANK)
    while True:
        ids = torch.randint(0, 240_000, (BATCH, FIELDS), generator=g) % ROWS
        yield ids, (ids.sum(1) % 2).float()


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    net = Recommender()
    model = DDP(net, gradient_as_bucket_view=True)
    opt = torch.optim.SGD(model.parameters(), 0.1)
    meter, alone = Meter(), []
    for step, (ids, label) in enumerate(clicks()):
        if step == STEPS:
            break
        meter.tick()
        opt.zero_grad()
        loss = F.binary_cross_entropy_with_logits(model(ids), label)
        begun = time.perf_counter()
        loss.backward()
        meter.add("backward", begun)
        opt.step()
    meter.tick()
    flat = torch.zeros(sum(p.numel() for p in net.parameters()))
    for _ in range(5):
        begun = time.perf_counter()
        dist.all_reduce(flat)
        meter.add("bare_allreduce", begun)
    meter.report(gradient_mb=f"{flat.numel() * 4 / 1e6:.1f}")
    finish()


if __name__ == "__main__":
    main()

# b06_late_start: rank 1 tokenizes its data for ten seconds before its model is wrapped; rank 0 waits in the DDP constructor
#
# TRUTH: {'kind': ['late-start'], 'cause': ['rank 1 starts late', 'data preparation before training on rank 1', 'cache missing on rank 1'], 'rank': 1, 'phase': 'start-up (before step 0)', 'first_step': 0, 'lost_share': [0.25, 0.6], 'must_not': ['comm-bound', 'compute-straggler', 'input-straggler', 'load-imbalance', 'hang', 'input-bound', 'step-time-drift', 'pause-straggler']}
#
# What happens: Rank 1 finds no token cache and builds it in pure Python for about 10 s, while rank 0 waits in the first collective of the DDP constructor; the training afterwards is even and healthy.
# Advice: Build the cache once before the job (or share it, or split the work over all ranks); training itself needs nothing. lost_share is of the process lifetime after init_process_group.
#
# Source:  meta-pytorch/torchrec PR#4224 (ranks arrive minutes apart at DDP wrapping); sgl-project/sglang PR#39128
# Launch:  torchrun --nproc-per-node 2 b06_late_start.py
# Control: REPORT_FAULT=0: the cache exists on both ranks
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


STEPS, BATCH, VOCAB, WINDOW = 120, 512, 800, 24
STEPS = int(os.environ.get("REPORT_STEPS", STEPS))


def tokenize(seconds):
    """Byte-pair-like merges over synthetic text, as slow as Python is."""
    until, seen = time.perf_counter() + seconds, {}
    while time.perf_counter() < until:
        word = "".join(chr(97 + (len(seen) * k * 7919) % 26) for k in range(1, 12))
        for a, b in zip(word, word[1:]):
            seen[a + b] = seen.get(a + b, 0) + 1
        seen[word] = 1
    g = torch.Generator().manual_seed(RANK)
    return torch.randint(0, VOCAB, (40000,), generator=g)


class NextToken(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, 32)
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(32 * WINDOW, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, VOCAB))

    def forward(self, x):
        return self.net(self.embed(x))


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    meter = Meter()
    begun = time.perf_counter()
    tokens = tokenize(10.0 if FAULT and RANK == 1 else 0.2)
    meter.add("prepare", begun)
    begun = time.perf_counter()
    model = DDP(NextToken())
    meter.add("wrap", begun)
    opt = torch.optim.Adagrad(model.parameters(), 0.02)
    g = torch.Generator().manual_seed(RANK)
    for _ in range(STEPS):
        meter.tick()
        at = torch.randint(0, len(tokens) - WINDOW - 1, (BATCH,), generator=g)
        rows = tokens[at[:, None] + torch.arange(WINDOW + 1)]
        opt.zero_grad()
        F.cross_entropy(model(rows[:, :-1]), rows[:, -1]).backward()
        opt.step()
    meter.tick()
    meter.report()
    finish()


if __name__ == "__main__":
    main()

# b02_rotating_lengths: random sequence lengths: another rank is the slow one at each step; GRU tagger fed by a generator
#
# TRUTH: {'kind': ['load-imbalance'], 'cause': ['uneven sequence lengths', 'input sizes differ between ranks from step to step', 'rotating imbalance'], 'rank': None, 'phase': 'forward/backward', 'first_step': 0, 'lost_share': [0.1, 0.4], 'must_not': ['compute-straggler', 'straggler', 'input-straggler', 'input-bound', 'comm-bound', 'pause-straggler', 'step-time-drift', 'gc-pause', 'cpu-contention']}
#
# What happens: Each rank draws its own batch with a padded length between 24 and 160, so at every step the rank with the shorter batch waits for the other; over the run both lose the same.
# Advice: Balance tokens over ranks (length-grouped or token-budget batches, same bucket on all ranks per step); no rank and no machine is broken.
#
# Source:  huggingface/transformers PR#47340 (1.54x by grouping lengths); haotian-liu/LLaVA#988 (12 s -> 5.7 s per batch)
# Launch:  torchrun --nproc-per-node 2 b02_rotating_lengths.py
# Control: REPORT_FAULT=0: token budget: all ranks use the same bucket per step and the batch has the same number of tokens
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


VOCAB, TAGS, STEPS, TOKENS = 3000, 9, 110, 12 * 80
STEPS = int(os.environ.get("REPORT_STEPS", STEPS))


def batches():
    g = torch.Generator().manual_seed(100 + RANK)
    shared = torch.Generator().manual_seed(7)
    for _ in range(STEPS):
        if FAULT:
            # a batch of 12 sentences, padded to the longest one
            length, rows = int(torch.randint(24, 161, (1,), generator=g)), 12
        else:
            length = (64, 80, 96)[int(torch.randint(0, 3, (1,), generator=shared))]
            rows = TOKENS // length
        tokens = torch.randint(1, VOCAB, (rows, length), generator=g)
        yield tokens, tokens % TAGS


class Tagger(nn.Module):
    def __init__(self, width=160):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, 96)
        self.mix = nn.Sequential(nn.Linear(96, 768), nn.GELU(), nn.Linear(768, 768), nn.GELU(), nn.Linear(768, 96))
        self.gru = nn.GRU(96, width, batch_first=True)
        self.out = nn.Linear(width, TAGS)

    def forward(self, tokens):
        hidden, _ = self.gru(self.mix(self.embed(tokens)))
        return self.out(hidden)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    model = DDP(Tagger())
    opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    meter = Meter()
    for tokens, tags in batches():
        meter.tick()
        opt.zero_grad()
        F.cross_entropy(model(tokens).flatten(0, 1), tags.flatten()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
    meter.tick()
    meter.report(own_cpu_p10=f"{sorted(meter.cpu)[len(meter.cpu) // 10]:.1f}", own_cpu_p90=f"{sorted(meter.cpu)[len(meter.cpu) * 9 // 10]:.1f}")
    finish()


if __name__ == "__main__":
    main()

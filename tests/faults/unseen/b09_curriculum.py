# b09_curriculum: sequence-length curriculum: from step 80 on sequences are more than twice as long; causal transformer, all ranks
#
# TRUTH: {'kind': ['step-time-change'], 'cause': ['sequence length / input size changes at step 80', 'more tokens per step'], 'rank': None, 'phase': 'forward/backward', 'first_step': 80, 'lost_share': [0.2, 0.6], 'must_not': ['compute-straggler', 'straggler', 'input-straggler', 'input-bound', 'comm-bound', 'load-imbalance', 'step-time-drift', 'gc-pause', 'pause-straggler']}
#
# What happens: At step 80 the curriculum switches from 48 to 112 tokens per sequence on both ranks, so forward and backward take more than twice as long from there on; nobody waits for anybody.
# Advice: Expected from the input size (tokens per second are about unchanged): lower the batch with the length if step time matters; do not search the hardware. lost_share is against the 48-token step.
#
# Source:  mosaicml/composer PR#770 and allenai/OLMo-core PR#41 (sequence-length warm-up); openai/parameter-golf PR#956 (short sequences give faster steps)
# Launch:  torchrun --nproc-per-node 2 b09_curriculum.py
# Control: REPORT_FAULT=0: 48 tokens throughout
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


STEPS, CHANGE, BATCH, DIM, VOCAB = 140, 80, 8, 128, 1500
STEPS = int(os.environ.get("REPORT_STEPS", STEPS))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (4, DIM // 4)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.attention, self.mlp = Attention(), nn.Sequential(nn.Linear(DIM, 4 * DIM), nn.GELU(), nn.Linear(4 * DIM, DIM))

    def forward(self, x):
        x = x + self.attention(self.a(x))
        return x + self.mlp(self.b(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.layers = nn.Sequential(*(Layer() for _ in range(3)))
        self.out = nn.Linear(DIM, VOCAB)

    def forward(self, tokens):
        return self.out(self.layers(self.embed(tokens)))


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    model = DDP(Model())
    opt = torch.optim.AdamW(model.parameters(), 3e-4)
    warm = torch.optim.lr_scheduler.LinearLR(opt, 0.1, 1.0, 20)
    meter, g = Meter(), torch.Generator().manual_seed(RANK)
    for step in range(STEPS):
        meter.tick()
        length = 112 if FAULT and step >= CHANGE else 48
        tokens = torch.randint(0, VOCAB, (BATCH, length + 1), generator=g)
        opt.zero_grad()
        F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()).backward()
        opt.step()
        warm.step()
    meter.tick()
    meter.report(split=CHANGE)
    finish()


if __name__ == "__main__":
    main()

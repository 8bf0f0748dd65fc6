# b16_frozen_process: rank 1 is frozen (SIGSTOP) for 0.3 to 0.6 s every second or two, as by a hypervisor; MLP mixer
#
# TRUTH: {'kind': ['pause-straggler', 'straggler', 'step-time-jitter'], 'cause': ["pauses of rank 1's process", 'stopped / not scheduled', 'host pauses'], 'rank': 1, 'phase': 'anywhere', 'first_step': None, 'lost_share': [0.12, 0.45], 'must_not': ['comm-bound', 'compute-straggler', 'input-straggler', 'load-imbalance', 'gc-pause', 'input-bound', 'checkpoint-stall', 'validation-heavy', 'step-time-drift', 'link-degraded']}
#
# What happens: A helper stops and continues rank 1 at random moments (VM pause, swapping); in such steps rank 0 waits in the all-reduce although rank 1 uses no more CPU time.
# Advice: Look at the host of rank 1 (steal time, cgroup throttling, swap, suspended VM), not at its code: its median step equals rank 0's.
#
# Source:  coqui-ai/TTS#3807 (random lags), ultralytics/ultralytics#8566 (slow-down on a pod)
# Launch:  torchrun --nproc-per-node 2 b16_frozen_process.py
# Control: REPORT_FAULT=0: no helper
import multiprocessing, os, random, signal, statistics, time
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


STEPS, BATCH, PATCHES, DIM = 150, 16, 36, 128
STEPS = int(os.environ.get("REPORT_STEPS", STEPS))


def freezer(victim):
    dice = random.Random(5)
    while True:
        time.sleep(dice.uniform(0.9, 2.0))
        os.kill(victim, signal.SIGSTOP)
        time.sleep(dice.uniform(0.3, 0.6))
        os.kill(victim, signal.SIGCONT)


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.tokens = nn.Sequential(nn.Linear(PATCHES, 72), nn.GELU(), nn.Linear(72, PATCHES))
        self.channels = nn.Sequential(nn.Linear(DIM, 512), nn.GELU(), nn.Linear(512, DIM))

    def forward(self, x):
        x = x + self.tokens(self.a(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.b(x))


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    model = DDP(nn.Sequential(nn.Linear(48, DIM), Mixer(), Mixer(), Mixer(), Mixer(), nn.Linear(DIM, 8)))
    opt = torch.optim.NAdam(model.parameters(), 1e-3)
    meter, g, helper = Meter(), torch.Generator().manual_seed(RANK), None
    if FAULT and RANK == 1:
        helper = multiprocessing.get_context("fork").Process(target=freezer, args=(os.getpid(),), daemon=True)
        helper.start()
    for _ in range(STEPS):
        meter.tick()
        x = torch.randn(BATCH, PATCHES, 48, generator=g)
        opt.zero_grad()
        F.mse_loss(model(x).mean(1), x[:, 0, :8]).backward()
        opt.step()
    meter.tick()
    if helper:
        helper.terminate()
        os.kill(os.getpid(), signal.SIGCONT)
    longest = sorted(meter.wall)
    meter.report(steps_over_250_ms=sum(ms > 250 for ms in longest), p90_ms=f"{longest[len(longest) * 9 // 10]:.1f}")
    finish()


if __name__ == "__main__":
    main()

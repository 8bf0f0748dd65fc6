# b14_exit_code: rank 1 is killed by its own memory guard with exit code 3 at step 60; rank 0 fails in the all-reduce afterwards
#
# TRUTH: {'kind': ['rank-lost'], 'cause': ['rank 1 exited', 'exit code 3', 'process ended without error message'], 'rank': 1, 'phase': None, 'first_step': 60, 'lost_share': [0.0, 1.0], 'must_not': ['comm-bound', 'compute-straggler', 'input-straggler', 'load-imbalance', 'step-time-drift', 'gc-pause', 'input-bound', 'link-degraded']}
#
# What happens: A guard thread of rank 1 decides at step 60 that memory is short and calls os._exit(3); rank 0 then gets 'Connection closed by peer' in its backward, which is only the consequence.
# Advice: Look at rank 1 (exit code 3, its last step 60, its own log), not at rank 0's gloo traceback; restart from a checkpoint.
#
# Source:  RVC-Project/Retrieval-based-Voice-Conversion-WebUI#1882 (gloo 'Connection closed by peer' is all the user sees); pytorch/pytorch#28257
# Launch:  torchrun --nproc-per-node 2 b14_exit_code.py
# Control: REPORT_FAULT=0: the guard never fires, 130 steps
import os, statistics, threading, time
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


STEPS, LOST, BATCH = 130, 60, 512
STEPS = int(os.environ.get("REPORT_STEPS", STEPS))
now = {"step": 0}


def guard(limit):
    """Ends this process before the node runs out of memory."""
    while now["step"] < limit:
        time.sleep(0.005)
    os._exit(3)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=40))
    if FAULT and RANK == 1:
        threading.Thread(target=guard, args=(LOST,), daemon=True).start()
    encoder = nn.Sequential(nn.Linear(300, 700), nn.Tanh(), nn.Linear(700, 60))
    decoder = nn.Sequential(nn.Linear(60, 700), nn.Tanh(), nn.Linear(700, 700), nn.Tanh(), nn.Linear(700, 300))
    model = DDP(nn.Sequential(encoder, decoder))
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    meter, g = Meter(), torch.Generator().manual_seed(RANK)
    for step in range(STEPS):
        meter.tick()
        now["step"] = step
        x = torch.randn(BATCH, 300, generator=g)
        opt.zero_grad()
        F.mse_loss(model(x), x).backward()
        opt.step()
        if step == LOST - 2:
            meter.report()
    meter.tick()
    meter.report()
    finish()


if __name__ == "__main__":
    main()

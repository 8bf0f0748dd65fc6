# b03_gil_thread: a pure-Python background thread on rank 0 takes the GIL from a model of many small operators
#
# TRUTH: {'kind': ['straggler', 'compute-straggler', 'host-bound', 'pause-straggler', 'cpu-contention'], 'cause': ['background Python thread', 'GIL contention', "thread 'dashboard'"], 'rank': 0, 'phase': 'forward', 'first_step': 0, 'lost_share': [0.15, 0.75], 'must_not': ['comm-bound', 'input-straggler', 'input-bound', 'load-imbalance', 'gc-pause', 'checkpoint-stall', 'logging-stall', 'step-time-drift']}
#
# What happens: On rank 0 a 'dashboard' thread re-aggregates the metric history in pure Python half of the time; each small operator of the main thread must win the GIL back (up to 5 ms), rank 1 waits in the all-reduce.
# Advice: Move the work of the thread into another process (or make it rare/vectorised); rank 0's computation itself is as cheap as rank 1's.
#
# Source:  pytorch/pytorch#77139 (pin-memory thread freezes the main thread); dmlc/dgl#867; BerkeleyAutomation/gqcnn PR#45
# Launch:  torchrun --nproc-per-node 2 b03_gil_thread.py
# Control: REPORT_FAULT=0: no dashboard thread
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


WIDTH, DEPTH, BATCH, STEPS = 128, 24, 160, 130
STEPS = int(os.environ.get("REPORT_STEPS", STEPS))


class Dashboard(threading.Thread):
    """Keeps the numbers for a web page up to date."""

    def __init__(self):
        super().__init__(name="dashboard", daemon=True)
        self.history = [(i, (i * 7919) % 1000 / 1000) for i in range(20000)]

    def run(self):
        while True:
            until = time.perf_counter() + 0.03
            while time.perf_counter() < until:
                total = {}
                for step, value in self.history[:4000]:
                    key = step % 17
                    total[key] = total.get(key, 0.0) * 0.98 + value * 0.02
            time.sleep(0.03)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    if FAULT and RANK == 0:
        Dashboard().start()
    model = DDP(nn.Sequential(nn.Linear(32, WIDTH), *(Block() for _ in range(DEPTH)), nn.Linear(WIDTH, 1)))
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    meter, g = Meter(), torch.Generator().manual_seed(RANK)
    step = 0
    while step < STEPS:
        meter.tick()
        x = torch.randn(BATCH, 32, generator=g)
        begun = time.perf_counter()
        out = model(x)
        meter.add("forward", begun)
        loss = F.mse_loss(out, x.sum(1, keepdim=True))
        opt.zero_grad()
        loss.backward()
        opt.step()
        step += 1
    meter.tick()
    meter.report()
    finish()


if __name__ == "__main__":
    main()

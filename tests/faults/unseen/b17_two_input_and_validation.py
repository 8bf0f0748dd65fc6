# b17_two_input_and_validation: two faults: rank 1's threaded prefetcher is fed too slowly (large), and only rank 0 validates every 30 steps (small)
#
# TRUTH: {'kind': ['input-straggler'], 'cause': ["rank 1's data is late", 'prefetch queue empty on rank 1', 'slow reader thread on rank 1'], 'rank': 1, 'phase': 'input', 'first_step': 0, 'lost_share': [0.3, 0.6], 'must_not': ['comm-bound', 'compute-straggler', 'load-imbalance', 'gc-pause', 'step-time-drift', 'checkpoint-stall', 'cpu-contention']}
#
# What happens: On rank 1 the reader thread needs 150 ms per batch, more than the step, so rank 1 waits for its queue and rank 0 for rank 1; besides, rank 0 alone validates for about 0.6 s every 30 steps while rank 1 waits in a broadcast (second finding: validation-heavy, rank 0).
# Advice: First rank 1's storage (more reader threads, staging), worth about 40 per cent of the time; then share the validation among ranks, worth some percent.
#
# Source:  official-stockfish/nnue-pytorch PR#319 (prefetch queue); tier4/Diffusion-Planner PR#337 (rank 0 validates)
# Launch:  torchrun --nproc-per-node 2 b17_two_input_and_validation.py
# Control: REPORT_FAULT=0: the reader is equally fast on both ranks; both ranks validate one half of a small set
import os, queue, statistics, threading, time
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


STEPS, EVERY, BATCH, DIM = 150, 30, 448, 160
STEPS = int(os.environ.get("REPORT_STEPS", STEPS))


class Prefetcher:
    """A reader thread and a bounded queue instead of a DataLoader."""

    def __init__(self, seconds):
        self.queue, self.seconds = queue.Queue(2), seconds
        threading.Thread(target=self.read, daemon=True, name="reader").start()

    def read(self):
        g = torch.Generator().manual_seed(RANK)
        for _ in range(STEPS):
            time.sleep(self.seconds)
            self.queue.put(torch.randn(BATCH, DIM, generator=g))
        self.queue.put(None)

    def __iter__(self):
        return iter(self.queue.get, None)


@torch.no_grad()
def validate(net, n):
    net.eval()
    g = torch.Generator().manual_seed(9)
    total = torch.zeros(())
    for _ in range(n):
        x = torch.randn(BATCH, DIM, generator=g)
        total += F.mse_loss(net(x), x)
    net.train()
    return total / n


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    net = nn.Sequential(nn.Linear(DIM, 640), nn.GELU(), nn.Dropout(0.1), nn.Linear(640, 640), nn.GELU(), nn.Linear(640, 640), nn.GELU(), nn.Linear(640, DIM))
    model = DDP(net)
    opt = torch.optim.AdamW(model.parameters(), 2e-4)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(opt)
    meter, step = Meter(), 0
    source = iter(Prefetcher(0.15 if FAULT and RANK == 1 else 0.02))
    while True:
        meter.tick()
        begun = time.perf_counter()
        x = next(source, None)
        meter.add("input", begun)
        if x is None:
            break
        opt.zero_grad()
        F.mse_loss(model(x), x).backward()
        opt.step()
        step += 1
        if step % EVERY == 0:
            begun = time.perf_counter()
            if FAULT:
                score = validate(net, 24) if RANK == 0 else torch.zeros(())
                dist.broadcast(score, 0)
            else:
                score = validate(net, 3)
                dist.all_reduce(score)
            plateau.step(score.item())
            meter.add("validation", begun)
    meter.tick()
    meter.report()
    finish()


if __name__ == "__main__":
    main()

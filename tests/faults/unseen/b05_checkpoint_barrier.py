# b05_checkpoint_barrier: rank 0 writes a checkpoint with optimizer state to slow storage every 30 steps, rank 1 waits at a barrier
#
# TRUTH: {'kind': ['checkpoint-stall'], 'cause': ['checkpoint on rank 0', 'torch.save to slow storage', 'barrier after checkpoint'], 'rank': 0, 'phase': 'checkpoint', 'first_step': 29, 'lost_share': [0.1, 0.35], 'must_not': ['comm-bound', 'compute-straggler', 'input-straggler', 'load-imbalance', 'validation-heavy', 'gc-pause', 'step-time-drift', 'logging-stall']}
#
# What happens: Every 30 steps rank 0 spends most of a second in torch.save (model and Adam state to storage of 20 MB/s) while rank 1 waits in dist.barrier().
# Advice: Save asynchronously or sharded (torch.distributed.checkpoint.async_save), less often, or to local disk first; the barrier's long wait is only the symptom.
#
# Source:  instructlab/training PR#566; mosaicml/llm-foundry PR#733; Lightning-AI/pytorch-lightning PR#4323
# Launch:  torchrun --nproc-per-node 2 b05_checkpoint_barrier.py
# Control: REPORT_FAULT=0: the same saves go straight to a local file without the throttle
import io, os, statistics, tempfile, time
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


STEPS, EVERY, BATCH = 150, 30, 640
STEPS = int(os.environ.get("REPORT_STEPS", STEPS))


class SlowMount(io.FileIO):
    """A network mount that takes 20 MB/s."""

    def write(self, data):
        written = super().write(data)
        if FAULT:
            time.sleep(written / 20e6)
        return written


class Trainer:
    def __init__(self):
        net = nn.Sequential(nn.Linear(256, 640), nn.SiLU(), nn.Linear(640, 640), nn.SiLU(), nn.Linear(640, 640), nn.SiLU(), nn.Linear(640, 256))
        self.model = DDP(net)
        self.opt = torch.optim.Adam(net.parameters(), 1e-4)
        self.meter, self.where = Meter(), tempfile.mkdtemp()

    def step(self, x):
        self.opt.zero_grad()
        F.smooth_l1_loss(self.model(x), x).backward()
        self.opt.step()

    def save(self, step):
        begun = time.perf_counter()
        if RANK == 0:
            with SlowMount(os.path.join(self.where, "last.pt"), "wb") as file:
                torch.save({"model": self.model.module.state_dict(), "opt": self.opt.state_dict(), "step": step}, file)
        dist.barrier()
        self.meter.add("checkpoint", begun)

    def fit(self):
        g = torch.Generator().manual_seed(RANK)
        for step in range(STEPS):
            self.meter.tick()
            self.step(torch.randn(BATCH, 256, generator=g))
            if (step + 1) % EVERY == 0:
                self.save(step)
        self.meter.tick()
        self.meter.report()


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    Trainer().fit()
    finish()

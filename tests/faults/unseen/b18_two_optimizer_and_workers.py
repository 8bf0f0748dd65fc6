# b18_two_optimizer_and_workers: two faults: rank 0's optimizer step is slow (fp64 shadow weights in a hook, large), and workers are respawned each epoch (small)
#
# TRUTH: {'kind': ['compute-straggler', 'straggler'], 'cause': ['optimizer step of rank 0', 'step hook / EMA on rank 0 only'], 'rank': 0, 'phase': 'optimizer', 'first_step': 0, 'lost_share': [0.2, 0.6], 'must_not': ['comm-bound', 'input-straggler', 'load-imbalance', 'gc-pause', 'step-time-drift', 'checkpoint-stall', 'logging-stall']}
#
# What happens: A post-step hook on rank 0 keeps two fp64 moving averages and norms of all weights inside of optimizer.step(), so rank 1 waits in its next backward; besides, each of five epochs starts with fresh workers that load an index for 0.3 s on both ranks (second finding: epoch-start-stall).
# Advice: First the averaging (foreach operations, every N steps, on all ranks or in fp32), then persistent_workers=True.
#
# Source:  open-mmlab/mmhuman3d PR#233 (7 min -> 35 s), open-mmlab/mmpretrain#196; pytorch/pytorch#3863 (Adam.step slow)
# Launch:  torchrun --nproc-per-node 2 b18_two_optimizer_and_workers.py
# Control: REPORT_FAULT=0: no hook; persistent workers without the index
import os, statistics, time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler

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


EPOCHS, PER_EPOCH, BATCH = 5, 30, 320


class Signals(Dataset):
    def __len__(self):
        return PER_EPOCH * BATCH * WORLD

    def __getitem__(self, i):
        return self.__getitems__([i])[0]

    def __getitems__(self, ids):
        t = torch.arange(128.0)
        return [(torch.sin(t * (1 + i % 7) / 9), i % 7) for i in ids]


def begin_worker(worker):
    torch.set_num_threads(1)
    if FAULT:
        time.sleep(0.3)  # the index comes from the network


class Shadow:
    """Two moving averages of the weights for evaluation, and how far the weights are from them."""

    def __init__(self, net):
        self.net, self.norms = net, {}
        self.kept = {decay: {n: p.detach().double() for n, p in net.named_parameters()} for decay in (0.99, 0.999)}

    def __call__(self, opt, args, kwargs):
        for decay, kept in self.kept.items():
            for n, p in self.net.named_parameters():
                kept[n] = decay * kept[n] + (1 - decay) * p.detach().double()
                self.norms[decay, n] = float(kept[n].norm()), float((kept[n] - p.detach().double()).norm())


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    data = Signals()
    sampler = DistributedSampler(data)
    loader = DataLoader(data, BATCH, sampler=sampler, num_workers=1, persistent_workers=not FAULT, worker_init_fn=begin_worker)
    net = nn.Sequential(nn.Linear(128, 800), nn.ReLU(), nn.Linear(800, 800), nn.ReLU(), nn.Linear(800, 800), nn.ReLU(), nn.Linear(800, 7))
    model = DDP(net)
    opt = torch.optim.Adam(model.parameters(), 1e-4)
    if FAULT and RANK == 0:
        opt.register_step_post_hook(Shadow(net))
    meter = Meter()
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        first = time.perf_counter()
        for x, y in loader:
            if first:
                meter.add("first_batch", first)
                first = None
            meter.tick()
            opt.zero_grad()
            F.cross_entropy(model(x), y).backward()
            begun = time.perf_counter()
            opt.step()
            meter.add("optimizer", begun)
    meter.tick()
    meter.report()
    finish()


if __name__ == "__main__":
    main()

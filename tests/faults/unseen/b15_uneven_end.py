# b15_uneven_end: rank 1 has fewer batches, leaves the epoch and waits for rank 0's file, rank 0 waits in the all-reduce: hang until the 30 s timeout
#
# TRUTH: {'kind': ['hang'], 'cause': ['rank 1 left the loop / does not take part in the collective', 'uneven number of batches', 'rank 0 waits in all-reduce'], 'rank': 1, 'phase': 'backward (all-reduce) on rank 0, outside of the loop on rank 1', 'first_step': 84, 'lost_share': [0.4, 0.9], 'must_not': ['comm-bound', 'compute-straggler', 'input-straggler', 'load-imbalance', 'step-time-drift', 'gc-pause', 'input-bound', 'link-degraded']}
#
# What happens: Rank 1's shard ends after 84 batches; it leaves the loop and polls for the final checkpoint that rank 0 would write after its 90th batch, but rank 0 waits for rank 1's gradient all-reduce of step 84 until the group's timeout of 30 s.
# Advice: Make the numbers of batches equal (DistributedSampler, drop_last) or use Join; the culprit is rank 1 which is outside of the loop, not the network.
#
# Source:  pytorch/pytorch#33148, #38174; Lightning-AI/pytorch-lightning#20404; microsoft/PyMarlin#80
# Launch:  torchrun --nproc-per-node 2 b15_uneven_end.py
# Control: REPORT_FAULT=0: both shards have 90 batches
import os, pathlib, statistics, tempfile, time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset

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


BATCHES, MISSING, BATCH = 90, 6, 40


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=30))
    final = pathlib.Path(tempfile.gettempdir(), f"b15_{os.environ['MASTER_PORT']}_{os.getppid()}.pt")
    rows = BATCH * (BATCHES - (MISSING if FAULT and RANK == 1 else 0))
    g = torch.Generator().manual_seed(RANK)
    loader = DataLoader(TensorDataset(torch.randn(rows, 3, 24, 24, generator=g), torch.randint(0, 6, (rows,), generator=g)), BATCH, shuffle=True)
    net = nn.Sequential(nn.Conv2d(3, 32, 3, 1, 1), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU(), nn.Conv2d(64, 64, 3, 1, 1), nn.ReLU(), nn.Flatten(), nn.Linear(64 * 144, 6))
    model = DDP(net)
    opt = torch.optim.SGD(model.parameters(), 0.01)
    meter, batches, step = Meter(), iter(loader), 0
    while True:
        meter.tick()
        try:
            x, y = next(batches)
        except StopIteration:
            break
        opt.zero_grad()
        F.cross_entropy(model(x), y).backward()
        opt.step()
        step += 1
        if step == BATCHES - MISSING - 1:
            meter.report(note="before_the_end")
    if RANK == 0:
        torch.save(net.state_dict(), str(final) + ".part")
        os.rename(str(final) + ".part", final)
    else:
        while not final.exists():
            time.sleep(0.2)
        net.load_state_dict(torch.load(final))
        final.unlink()
    meter.report(note="end")
    finish()


if __name__ == "__main__":
    main()

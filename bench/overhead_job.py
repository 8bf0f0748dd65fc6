"""A plain training loop of a fixed amount of CPU work per step; says its median step time by its own clock.

overhead_job.py --preset 1.5ms|40ms --steps N      one process, or DDP on gloo under torchrun
"""

import time

print(f"BENCH first={time.monotonic():.6f}", flush=True)

import argparse  # noqa: E402
import os  # noqa: E402
import statistics  # noqa: E402

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402

RANK, WORLD = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
PRESETS = {
    "1.5ms": (192, 5, 48),
    "40ms": (768, 6, 160),
}  # width, depth, batch: about that long on one 2020s server core


class Rows(Dataset):
    def __init__(self, count, width):
        self.count, self.x = count, torch.randn(1024, width)

    def __len__(self):
        return self.count

    def __getitems__(self, ids):
        return self.x[torch.tensor(ids) % 1024]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--preset", choices=PRESETS, default="1.5ms")
    p.add_argument("--steps", type=int, default=1500)
    p.add_argument("--warmup", type=int, default=50)
    a = p.parse_args()
    os.sched_setaffinity(0, {RANK % os.cpu_count()})
    torch.set_num_threads(1)
    torch.manual_seed(0)
    width, depth, batch = PRESETS[a.preset]
    if WORLD > 1:
        dist.init_process_group("gloo")
    net = nn.Sequential(*[m for _ in range(depth) for m in (nn.Linear(width, width), nn.Tanh())])
    model = DistributedDataParallel(net) if WORLD > 1 else net
    opt = torch.optim.SGD(model.parameters(), 0.01)
    marks = []
    for x in DataLoader(Rows((a.steps + a.warmup) * batch, width), batch, collate_fn=lambda rows: rows):
        marks.append(time.perf_counter())
        opt.zero_grad()
        F.mse_loss(model(x), x).backward()
        opt.step()
    steps = [1e6 * (b - a) for a, b in zip(marks[a.warmup :], marks[a.warmup + 1 :])]
    cuts = statistics.quantiles(steps, n=10)
    print(
        f"BENCH rank={RANK} p10_us={cuts[0]:.2f} p50_us={statistics.median(steps):.2f} mean_us={statistics.fmean(steps):.2f} "
        f"steps={len(steps)}",
        flush=True,
    )
    if WORLD > 1:
        time.sleep(0.3)
        dist.destroy_process_group()
        time.sleep(0.5)
    print(f"BENCH last={time.monotonic():.6f}", flush=True)


main()

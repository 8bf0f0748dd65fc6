"""Healthy: pictures grow from 16 to 28 pixels at a planned step, so steps become longer from there on.

What looks like a fault: at step 80 the step takes more than twice the time on both ranks and stays there.
What is true: each pixel is computed at the same speed as before, on purpose; both ranks change at the same step.
Right advice: none; that the step time changed at step 80 may be said, with the size of the input as the reason.
REPORT_FAULT=0: 23 pixels in all steps.
"""
import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler

GROWS = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, GROW_AT, BATCH = 160, 80, 16


class Shapes(Dataset):
    size = 16 if GROWS else 23

    def __len__(self):
        return 4096

    def __getitem__(self, i):
        label, n = i % 6, self.size
        line = torch.linspace(-1, 1, n)
        picture = torch.cos((1 + label) * line)[:, None] * torch.sin((2 + i % 3) * line)
        return picture.expand(3, n, n) + 0.2 * torch.randn(3, n, n), label


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.GroupNorm(8, width), nn.ReLU(),
                                   nn.Conv2d(width, width, 3, padding=1))

    def forward(self, x):
        return (x + self.inner(x)).relu()


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), Residual(32), Residual(32), nn.AdaptiveAvgPool2d(1),
                        nn.Flatten(), nn.Linear(32, 6))
    model = DDP(net)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = Shapes()
    sampler = DistributedSampler(data)
    times, step = [], 0
    dist.barrier()
    begin = before = time.perf_counter()
    while step < STEPS:
        sampler.set_epoch(step)
        for pictures, labels in DataLoader(data, BATCH, sampler=sampler):
            loss = nn.functional.cross_entropy(model(pictures), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            now = time.perf_counter()
            times.append(now - before)
            before = now
            if rank == 0 and step % 40 == 0:
                print(f"step {step} size {pictures.shape[-1]} loss {loss.item():.3f}", flush=True)
            step += 1
            if GROWS and step == GROW_AT:
                data.size = 28
            if step == STEPS:
                break
    total = time.perf_counter() - begin
    small, large = (1e3 * statistics.median(part) for part in (times[10:GROW_AT], times[GROW_AT:]))
    print(f"REPORT rank={rank} loop_s={total:.2f} steps={STEPS} median_ms={1e3 * statistics.median(times):.1f} "
          f"before_ms={small:.1f} after_ms={large:.1f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

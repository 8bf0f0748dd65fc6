"""Healthy: a detector that is trained at several scales, the same on both ranks.

What looks like a fault: every ten steps the pictures have another size (48 to 80 pixels), so that the step takes up to
two and a half times as long as another, in blocks; memory follows the size.
What is true: both ranks draw the size from the same seed and always work on equal shapes; a pixel costs the same
throughout.
Right advice: none; no rank is slow, nothing drifts, the load is even.
REPORT_FAULT=0: 64 pixels in every step.
"""

import os
import random
import statistics
import time
from collections import defaultdict

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

SIZES = (48, 56, 64, 72, 80) if os.environ.get("REPORT_FAULT", "1") != "0" else (64,)
STEPS, BATCH, EVERY, WIDTH = 240, 14, 10, 24


class Detector(nn.Module):
    """For each cell of eight pixels: is there a middle of a square, and how wide is it."""

    def __init__(self):
        super().__init__()
        layers, channels = [], 1
        for width in (WIDTH, 2 * WIDTH, 3 * WIDTH):
            layers += [nn.Conv2d(channels, width, 3, 2, 1), nn.GroupNorm(4, width), nn.SiLU()]
            layers += [nn.Conv2d(width, width, 3, 1, 1), nn.GroupNorm(4, width), nn.SiLU()]
            channels = width
        self.features = nn.Sequential(*layers)
        self.head = nn.Conv2d(channels, 2, 1)

    def forward(self, pictures):
        return self.head(self.features(pictures))


def batch(side):
    pictures = 0.3 * torch.randn(BATCH, 1, side, side)
    goal = torch.zeros(BATCH, 2, side // 8, side // 8)
    places, widths = torch.randint(8, side - 8, (BATCH, 2)).tolist(), torch.randint(3, 8, (BATCH,)).tolist()
    for k, ((y, x), half) in enumerate(zip(places, widths)):
        pictures[k, 0, y - half : y + half, x - half : x + half] += 1
        goal[k, 0, y // 8, x // 8], goal[k, 1, y // 8, x // 8] = 1, half / 8
    return pictures, goal


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = DDP(Detector())
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    scale = random.Random(7)
    torch.manual_seed(rank + 1)
    durations, start, cpu, side = defaultdict(list), time.perf_counter(), time.process_time(), 64
    for step in range(STEPS):
        if step % EVERY == 0:
            side = scale.choice(SIZES)
        began = time.perf_counter()
        pictures, goal = batch(side)
        found = model(pictures)
        there = nn.functional.binary_cross_entropy_with_logits(found[:, 0], goal[:, 0], pos_weight=torch.tensor(20.0))
        loss = there + (goal[:, 0] * (found[:, 1] - goal[:, 1]).square()).sum() / BATCH
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        durations[side].append(time.perf_counter() - began)
        if rank == 0 and step % 40 == 0:
            print(f"step {step} side {side} loss {loss.item():.3f}", flush=True)
    medians = {side: round(1e3 * statistics.median(durations[side])) for side in sorted(durations)}
    print(
        f"rank {rank}: loop {time.perf_counter() - start:.2f} s, CPU {time.process_time() - cpu:.2f} s, "
        f"median ms by side {medians}"
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

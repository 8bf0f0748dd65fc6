"""A pair of the same picture: the root of a distance of zero has no slope.

What happens: a siamese network learns by pairs and a contrastive loss. The distance is the root of the summed squares.
In step 90 a pair of rank 1 is the same picture twice (a duplicate in the data set): its distance is exactly 0, the
loss is finite, but the gradient is 0 times infinity. The all-reduce hands the NaN to both ranks, the optimizer writes
it into every parameter, and from step 91 on every loss is NaN. The job goes on to the end.
Who causes it: the root at zero, first met by rank 1.  What is lost: every step from 90 on.
Right advice: a small number under the root or the squared distance itself, drop the duplicates, and stop or skip at
the first gradient that is not finite; learning rate, link and machine are sound.
REPORT_FAULT=0: 1e-8 is added under the root.
"""

import math
import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

EPSILON = 0.0 if os.environ.get("REPORT_FAULT", "1") != "0" else 1e-8
STEPS, PAIRS, SIDE, PERSONS, MARGIN, DUPLICATE_AT = 220, 16, 32, 40, 1.0, 90


class Encoder(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        layers, channels = [], 1
        for k in range(3):
            layers += [nn.Conv2d(channels, width << k, 3, 2 if k else 1, 1), nn.GroupNorm(4, width << k), nn.ReLU()]
            channels = width << k
        self.features = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * channels, 64))

    def forward(self, left, right):
        difference = self.features(left) - self.features(right)
        return (difference.square().sum(1) + EPSILON).sqrt()


class PairSource:
    def __init__(self, rank, faces):
        self.rank, self.faces = rank, faces
        self.draw = torch.Generator().manual_seed(rank + 1)

    def __iter__(self):
        for step in range(STEPS):
            left = torch.randint(0, PERSONS, (PAIRS,), generator=self.draw)
            other = torch.randint(1, PERSONS, (PAIRS,), generator=self.draw)
            same = torch.rand(PAIRS, generator=self.draw) < 0.5
            right = torch.where(same, left, (left + other) % PERSONS)
            a = self.faces[left] + 0.3 * torch.randn(PAIRS, 1, SIDE, SIDE, generator=self.draw)
            b = self.faces[right] + 0.3 * torch.randn(PAIRS, 1, SIDE, SIDE, generator=self.draw)
            if self.rank == 1 and step == DUPLICATE_AT:
                b[3], same[3] = a[3], True
            yield a, b, same.float()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    faces = torch.randn(PERSONS, 1, SIDE, SIDE)
    model = DDP(Encoder())
    optimizer = torch.optim.Adam(model.parameters(), 5e-4)
    first_loss, first_gradient = None, None
    durations, start, cpu = [], time.perf_counter(), time.process_time()
    began = start
    for step, (left, right, same) in enumerate(PairSource(rank, faces)):
        distance = model(left, right)
        loss = (same * distance.square() + (1 - same) * (MARGIN - distance).clamp(min=0).square()).mean()
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        now = time.perf_counter()
        durations.append(now - began)
        began = now
        if first_gradient is None and not math.isfinite(norm.item()):
            first_gradient = step
        if first_loss is None and not math.isfinite(loss.item()):
            first_loss = step
        if rank == 0 and step % 40 == 0:
            print(f"step {step} loss {loss.item():.4f} norm {norm.item():.3f}", flush=True)
    print(
        f"rank {rank}: loop {time.perf_counter() - start:.2f} s, CPU {time.process_time() - cpu:.2f} s, median step "
        f"{1e3 * statistics.median(durations):.1f} ms, first bad gradient {first_gradient}, loss {first_loss}"
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""A crop that must contain an object, from a picture that has none.

What happens: a segmentation job on four ranks crops each picture at random until the crop contains a labelled pixel.
One picture of rank 2, in step 110, has no labelled pixel at all: its loop draws for ever, in __getitem__, with a busy
core. The other three ranks wait in their all-reduce until the timeout of 15 s ends the job.
Who causes it: the loop of rank 2 in its loader.  What is lost: everything from step 110 on.
Right advice: look at rank 2 in __getitem__, not at the link: bound the tries, or crop around a known pixel and leave
out pictures without one; a longer timeout does not help.
REPORT_FAULT=0: after twenty tries the last crop is taken.
"""

import datetime
import os
import statistics
import time

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset

TRIES = None if os.environ.get("REPORT_FAULT", "1") != "0" else 20
STEPS, BATCH, SIDE, CROP, EMPTY_AT, WIDTH = 180, 4, 96, 48, 110, 16


class Scenes(Dataset):
    def __init__(self, rank):
        self.rank = rank
        self.places = np.mgrid[:SIDE, :SIDE]

    def __len__(self):
        return STEPS * BATCH

    def __getitem__(self, i):
        rng = np.random.default_rng((self.rank, i))
        middle, radius = rng.integers(20, SIDE - 20, 2), rng.integers(6, 14)
        mask = ((self.places - middle[:, None, None]) ** 2).sum(0) < radius**2
        if self.rank == 2 and i == EMPTY_AT * BATCH + 1:
            mask[:] = False
        picture = rng.standard_normal((1, SIDE, SIDE), np.float32) + 1.5 * mask.astype(np.float32)
        tried = 0
        while True:
            top, left = rng.integers(0, SIDE - CROP + 1, 2)
            part = mask[top : top + CROP, left : left + CROP]
            tried += 1
            if part.any() or tried == TRIES:
                break
        return torch.from_numpy(picture[:, top : top + CROP, left : left + CROP]), torch.from_numpy(
            part.astype(np.float32)
        )


class Segmenter(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList(
            nn.Sequential(nn.Conv2d(a, b, 3, 1, 1), nn.ReLU(), nn.Conv2d(b, b, 3, 1, 1), nn.ReLU())
            for a, b in ((1, WIDTH), (WIDTH, 2 * WIDTH))
        )
        self.bottom = nn.Sequential(nn.Conv2d(2 * WIDTH, 2 * WIDTH, 3, 1, 1), nn.ReLU())
        self.up = nn.ModuleList(
            nn.Sequential(nn.Conv2d(a, b, 3, 1, 1), nn.ReLU()) for a, b in ((4 * WIDTH, WIDTH), (2 * WIDTH, WIDTH))
        )
        self.head = nn.Conv2d(WIDTH, 1, 1)

    def forward(self, x):
        kept = []
        for stage in self.down:
            x = stage(x)
            kept.append(x)
            x = nn.functional.max_pool2d(x, 2)
        x = self.bottom(x)
        for stage in self.up:
            x = stage(torch.cat([nn.functional.interpolate(x, scale_factor=2), kept.pop()], 1))
        return self.head(x)


def main():
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=15))
    rank = dist.get_rank()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = DDP(Segmenter())
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    durations, start, cpu = [], time.perf_counter(), time.process_time()
    began = start
    for step, (pictures, masks) in enumerate(DataLoader(Scenes(rank), batch_size=BATCH)):
        loss = nn.functional.binary_cross_entropy_with_logits(model(pictures).squeeze(1), masks)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        now = time.perf_counter()
        durations.append(now - began)
        began = now
        if rank == 0 and step % 30 == 0:
            print(f"step {step} loss {loss.item():.3f} at {now - start:.1f} s", flush=True)
    print(
        f"rank {rank}: loop {time.perf_counter() - start:.2f} s, CPU {time.process_time() - cpu:.2f} s, "
        f"median step {1e3 * statistics.median(durations):.1f} ms"
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

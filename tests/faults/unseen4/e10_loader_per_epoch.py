"""A loader made anew in every epoch, whose worker first parses the index of the data set.

What happens: train_one_epoch() builds the DataLoader; each time a worker is started that reads a JSON index of some
megabytes before its first batch. An epoch has only 30 steps, so every 30th step waits about as long as the others take
together.
Who causes it: both ranks alike, at steps 0, 30, 60 ...  What is lost: a quarter to two thirds of the loop.
Right advice: one loader with persistent_workers=True, parse the index before the workers start or keep it in an array;
between the starts the loader is fast enough, more workers make it worse.
REPORT_FAULT=0: one loader with persistent workers for the whole run.
"""
import json
import os
import random
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler

ANEW = os.environ.get("REPORT_FAULT", "1") != "0"
EPOCHS, BATCH, ROWS, WORLD_STEPS = 7, 16, 960, 30


def write_index(path):
    rng = random.Random(5)
    entries = [{"id": i, "label": rng.randrange(6), "box": [rng.random() for _ in range(24)],
                "tags": [f"t{rng.randrange(900)}" for _ in range(12)]} for i in range(25_000)]
    with open(path, "w") as file:
        json.dump(entries, file)


class Annotated(Dataset):
    def __init__(self, path):
        self.path, self.entries = path, None

    def __len__(self):
        return ROWS

    def __getitem__(self, i):
        if self.entries is None:  # lazily, so that it is not sent to the worker
            with open(self.path) as file:
                self.entries = json.load(file)
        entry = self.entries[i]
        generator = torch.Generator().manual_seed(entry["id"])
        picture = torch.randn(3, 20, 20, generator=generator) + entry["label"]
        return picture, torch.tensor(entry["box"][:4]), entry["label"]


class Detector(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
        self.boxes, self.classes = nn.Linear(4 * width, 4), nn.Linear(4 * width, 6)

    def forward(self, x):
        x = self.body(x)
        return self.boxes(x).sigmoid(), self.classes(x)


def make_loader(data):
    sampler = DistributedSampler(data, shuffle=True)
    loader = DataLoader(data, BATCH, sampler=sampler, num_workers=1, drop_last=True, persistent_workers=not ANEW)
    return sampler, loader


def train_one_epoch(model, optimizer, loader, times):
    before = time.perf_counter()
    for pictures, boxes, labels in loader:
        found, scores = model(pictures)
        loss = nn.functional.smooth_l1_loss(found, boxes) + nn.functional.cross_entropy(scores, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        now = time.perf_counter()
        times.append(now - before)
        before = now
    return loss.item()


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    path = os.path.join(tempfile.gettempdir(), f"index_{os.environ.get('MASTER_PORT', '0')}.json")
    if rank == 0:
        write_index(path)
    dist.barrier()
    model = DDP(Detector())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data, times = Annotated(path), []
    sampler, loader = make_loader(data)
    begin = time.perf_counter()
    for epoch in range(EPOCHS):
        if ANEW:
            sampler, loader = make_loader(data)
        sampler.set_epoch(epoch)
        loss = train_one_epoch(model, optimizer, loader, times)
        if rank == 0:
            print(f"epoch {epoch} loss {loss:.3f}", flush=True)
    total = time.perf_counter() - begin
    first = sum(times[::WORLD_STEPS])
    print(f"REPORT rank={rank} loop_s={total:.2f} steps={len(times)} median_ms={1e3 * statistics.median(times):.1f} "
          f"first_steps_s={first:.2f} share={first / total:.3f}", flush=True)
    dist.barrier()
    if rank == 0:
        os.remove(path)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""The object store throttles: now one rank's fetch, now the other's, is tried again after longer and longer waits.

What happens: the loader worker of each rank fetches a batch per request. In 4 % of the requests the store answers
"slow down"; the client waits 0.1, 0.2, 0.4 s and tries again, up to three times. The rank that waits comes late into
forward and the other waits for it in the all-reduce. Which rank it is changes by chance; most steps are fast on both.
Who causes it: the store and the client's back-off, on either rank.  What is lost: the waits that the two batches ahead
do not hide.
Right advice: fetch further ahead (prefetch_factor, workers), fewer and larger requests, ask for a higher limit; no
rank, core or link is slow, and the pauses are no pauses of the processes.
REPORT_FAULT=0: the store answers all requests.
"""
import os
import random
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset

THROTTLED = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH = 220, 24


class Store:
    """Answers at once or "slow down"."""

    def __init__(self, rank):
        self.rank = rank

    def get(self, key, attempt):
        rng = random.Random(f"{self.rank}/{key}/{attempt}")
        if THROTTLED and rng.random() < (0.04 if attempt == 0 else 0.8):
            raise BlockingIOError("slow down")
        return torch.randn(BATCH, 3, 32, 32, generator=torch.Generator().manual_seed(key))


class Batches(Dataset):
    def __init__(self, rank):
        self.store = Store(rank)

    def __len__(self):
        return STEPS

    def __getitem__(self, key):
        for attempt in range(4):
            try:
                pictures = self.store.get(key, attempt)
                break
            except BlockingIOError:
                if attempt == 3:
                    pictures = torch.zeros(BATCH, 3, 32, 32)
                    break
                time.sleep(0.1 * 2 ** attempt)
        return pictures, (pictures.mean((1, 2, 3)) > 0).long()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    layers, channels = [], 3
    for width in (32, 48):
        layers += [nn.Conv2d(channels, width, 3, 2, 1), nn.GroupNorm(4, width), nn.ReLU(),
                   nn.Conv2d(width, width, 3, 1, 1), nn.ReLU()]
        channels = width
    model = DDP(nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 2)))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    durations, start, cpu = [], time.perf_counter(), time.process_time()
    began = start
    for step, (pictures, labels) in enumerate(DataLoader(Batches(rank), batch_size=None, num_workers=1)):
        loss = nn.functional.cross_entropy(model(pictures), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        now = time.perf_counter()
        durations.append(now - began)
        began = now
        if rank == 0 and step % 50 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
    print(f"rank {rank}: loop {time.perf_counter() - start:.2f} s, CPU {time.process_time() - cpu:.2f} s, "
          f"median step {1e3 * statistics.median(durations):.1f} ms, {sum(d > 0.12 for d in durations)} above 120 ms")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""Healthy: a model that is trained on small pictures first and on larger ones in the last part.

What looks like a fault: from step 150 each step takes half as long again or more on both ranks, and the loss moves there; every
60 steps there is a short evaluation, split over the ranks, and rank 0 stores a small checkpoint through a thread.
What is true: the larger size is written in the plan (progressive resizing), the work per step grows with the number of
pixels. Evaluation and checkpoint take about 1 % of the time.
Right advice: none; no slowing hardware, no drift, no leak, no straggler.
REPORT_FAULT=0: one size throughout, no evaluation, no checkpoint.
"""

import os
import statistics
import tempfile
import threading
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

PLAIN = os.environ.get("REPORT_FAULT", "1") == "0"
STEPS, GROW, SMALL, LARGE, BATCH, CLASSES, WIDTH = 240, 150, 16, 24, 48, 10, 56


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.GroupNorm(4, WIDTH), nn.ReLU(), nn.Conv2d(WIDTH, WIDTH, 3, padding=1),
            nn.GroupNorm(4, WIDTH), nn.ReLU(), nn.Conv2d(WIDTH, WIDTH, 3, padding=1),
        )  # fmt: skip

    def forward(self, x):
        return x + self.body(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, WIDTH, 3, padding=1, stride=2)
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Linear(WIDTH * 4, CLASSES)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(nn.functional.adaptive_avg_pool2d(x.relu(), 2).flatten(1))


def pictures(prototypes, side, count):
    y = torch.randint(0, CLASSES, (count,))
    x = nn.functional.interpolate(prototypes[y], (side, side), mode="bilinear", align_corners=False)
    return x + 0.8 * torch.randn_like(x), y


@torch.no_grad()
def evaluate(model, prototypes, side):
    x, y = pictures(prototypes, side, BATCH)
    hits = (model(x).argmax(1) == y).float().sum()
    dist.all_reduce(hits)
    return hits.item() / (BATCH * dist.get_world_size())


def store(model, path, rank):
    if rank == 0:
        state = {name: value.clone() for name, value in model.module.state_dict().items()}
        writer = threading.Thread(target=torch.save, args=(state, path))
        writer.start()
        return writer


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = DDP(Net())
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3)
    prototypes = torch.randn(CLASSES, 3, 8, 8)
    torch.manual_seed(70 + rank)
    durations, aside, writer = [], 0.0, None
    with tempfile.TemporaryDirectory() as folder:
        dist.barrier()
        start, cpu = time.perf_counter(), time.process_time()
        for step in range(STEPS):
            began = time.perf_counter()
            side = LARGE if step >= GROW and not PLAIN else SMALL
            x, y = pictures(prototypes, side, BATCH)
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            durations.append(time.perf_counter() - began)
            if step % 60 == 59 and not PLAIN:
                began = time.perf_counter()
                hits = evaluate(model, prototypes, side)
                writer = store(model, os.path.join(folder, "last.pt"), rank) or writer
                aside += time.perf_counter() - began
                if rank == 0:
                    print(f"step {step} side {side} loss {loss.item():.3f} hits {hits:.2f}", flush=True)
        loop = time.perf_counter() - start
        if writer:
            writer.join()
    print(f"REPORT rank={rank} loop_s={loop:.2f} cpu_s={time.process_time() - cpu:.2f} aside_share={aside / loop:.3f} "
          f"median_small_ms={1e3 * statistics.median(durations[:GROW]):.1f} "
          f"median_large_ms={1e3 * statistics.median(durations[GROW:]):.1f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""Each rank starts as many threads as the node file of another machine says.

What happens: a forecaster of time series reads the number of threads per rank from a node file, which was written for
a machine with 12 cores. Here two ranks share two cores: each operator of each rank is cut into 6 parts for 6 threads
that wait for each other while they wait for a core.
Who causes it: torch.set_num_threads(6) on both ranks.  What is lost: the switching and the waiting at the end of every
parallel part, in every step of both ranks from the first on.
Right advice: as many threads as cores for each rank (here 1), and ask the machine (os.sched_getaffinity) and not a
file; model, data and exchange are sound, and no rank is slower than the other.
REPORT_FAULT=0: the node file says 1.
"""

import json
import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

THREADS = 6 if os.environ.get("REPORT_FAULT", "1") != "0" else 1
NODE_FILE = f'{{"queue": "long", "ranks": 2, "threads_per_rank": {THREADS}}}'
STEPS, BATCH, SERIES, PAST, AHEAD, WIDTH, DEPTH = 220, 24, 16, 160, 24, 48, 5


class Forecaster(nn.Module):
    """Dilated convolutions over the past, a linear map to the hours ahead."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv1d(SERIES, WIDTH, 1)
        self.filters = nn.ModuleList(nn.Conv1d(WIDTH, WIDTH, 3, padding=2**k, dilation=2**k) for k in range(DEPTH))
        self.gates = nn.ModuleList(nn.Conv1d(WIDTH, WIDTH, 3, padding=2**k, dilation=2**k) for k in range(DEPTH))
        self.head = nn.Linear(WIDTH * PAST // 8, SERIES * AHEAD)

    def forward(self, past):
        x = self.first(past)
        for values, gate in zip(self.filters, self.gates):
            x = x + values(x).tanh() * gate(x).sigmoid()
        return self.head(nn.functional.avg_pool1d(x, 8).flatten(1)).view(-1, SERIES, AHEAD)


def windows(rank):
    """Sums of daily and weekly waves with noise, as endless windows."""
    draw = torch.Generator().manual_seed(rank + 1)
    hours = torch.arange(PAST + AHEAD)
    while True:
        phase = 168 * torch.rand(BATCH, SERIES, 1, generator=draw)
        wave = (6.28 * (hours + phase) / 24).sin() + 0.5 * (6.28 * (hours + phase) / 168).sin()
        wave += 0.1 * torch.randn(wave.shape, generator=draw)
        yield wave[..., :PAST], wave[..., PAST:]


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    torch.set_num_threads(json.loads(NODE_FILE)["threads_per_rank"])
    model = DDP(Forecaster())
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    source = windows(rank)
    durations, start, cpu = [], time.perf_counter(), time.process_time()
    for step in range(STEPS):
        began = time.perf_counter()
        past, ahead = next(source)
        loss = nn.functional.smooth_l1_loss(model(past), ahead)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        durations.append(time.perf_counter() - began)
        if rank == 0 and step % 40 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    print(
        f"rank {rank}: loop {time.perf_counter() - start:.2f} s, CPU {time.process_time() - cpu:.2f} s, median step "
        f"{1e3 * statistics.median(durations):.1f} ms with {torch.get_num_threads()} threads"
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""Healthy: rank 1 reads from a store five times slower than rank 0's, but its workers read ahead.

What happens: each batch of rank 1 takes about 90 ms to fetch in a worker (rank 0: 15 ms); two workers with three
batches ahead deliver one per 45 ms while a step takes 100 ms or more, so batches are ready when they are asked for.
Who causes it: nobody.  What is lost: next to nothing (start of the workers).  Right advice: leave it alone.
REPORT_FAULT has no effect.
"""
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

STEPS, BATCH, LENGTH = 190, 32, 56


class RemoteWindows(IterableDataset):
    def __init__(self, rank, latency):
        self.rank, self.latency = rank, latency

    def __iter__(self):
        info = get_worker_info()
        generator = torch.Generator().manual_seed(1000 * self.rank + info.id)
        for _ in range(STEPS // info.num_workers + 1):
            time.sleep(self.latency)
            yield torch.cumsum(torch.randn(BATCH, LENGTH + 1, 32, generator=generator) * 0.2, 1)


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(32, 128, num_layers=2, batch_first=True)
        self.out = nn.Linear(128, 32)

    def forward(self, x):
        return x + self.out(self.rnn(x)[0])


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    loader = DataLoader(RemoteWindows(rank, 0.09 if rank == 1 else 0.015), batch_size=None, num_workers=2, prefetch_factor=3)
    model = DDP(Forecaster())
    optimizer = torch.optim.NAdam(model.parameters(), lr=1e-3)
    batches = iter(loader)
    batch = next(batches)
    dist.barrier()
    waited, begin = 0.0, time.perf_counter()
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = nn.functional.huber_loss(model(batch[:, :-1]), batch[:, 1:])
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.5)
        optimizer.step()
        t0 = time.perf_counter()
        batch = next(batches)
        waited += time.perf_counter() - t0
        if rank == 0 and step % 40 == 0:
            print(step, round(loss.item(), 4), flush=True)
    total = time.perf_counter() - begin
    print(f"REPORT rank={rank} loop_s={total:.2f} steps={STEPS} cpu_s={time.thread_time():.2f}", flush=True)
    print(f"REPORT rank={rank} lost_s={waited:.2f} share={waited / total:.3f} (time in next(batches))", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

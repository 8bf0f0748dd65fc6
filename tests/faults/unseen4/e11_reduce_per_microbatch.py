"""Gradient accumulation over eight micro-batches under DDP without no_sync().

What happens: every backward averages all gradients (a dense embedding table of 12 MB among them), though only the
eighth is followed by an optimizer step; seven of eight all-reduces are for nothing.
Who causes it: the training loop, on both ranks alike.  What is lost: about seven eighths of the exchange.
Right advice: model.no_sync() in all micro-batches but the last; no rank is slow, and the link is only overused.
REPORT_FAULT=0: no_sync() in seven of eight micro-batches.
"""
import contextlib
import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

ALWAYS = os.environ.get("REPORT_FAULT", "1") != "0"
UPDATES, ACCUMULATE, BATCH = 32, 8, 64
ITEMS, WIDTH, HISTORY = 48_000, 64, 16


class NextItem(nn.Module):
    def __init__(self):
        super().__init__()
        self.items = nn.Embedding(ITEMS, WIDTH)
        self.body = nn.Sequential(nn.Linear(HISTORY * WIDTH, 256), nn.GELU(), nn.Linear(256, WIDTH))

    def forward(self, history, candidates):
        query = self.body(self.items(history).flatten(1))
        return torch.einsum("bw,bcw->bc", query, self.items(candidates))


def batches(rank):
    generator = torch.Generator().manual_seed(rank)
    while True:
        history = torch.randint(ITEMS, (BATCH, HISTORY), generator=generator)
        others = torch.randint(ITEMS, (BATCH, 31), generator=generator)
        yield history, torch.cat([(history[:, -1:] + 1) % ITEMS, others], 1)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(NextItem())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, UPDATES)
    stream, target, times = batches(rank), torch.zeros(BATCH, dtype=torch.long), []
    dist.barrier()
    begin = before = time.perf_counter()
    for update in range(UPDATES):
        for micro in range(ACCUMULATE):
            last = micro == ACCUMULATE - 1
            with contextlib.nullcontext() if last or ALWAYS else model.no_sync():
                loss = nn.functional.cross_entropy(model(*next(stream)), target) / ACCUMULATE
                loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        schedule.step()
        now = time.perf_counter()
        times.append(now - before)
        before = now
        if rank == 0 and update % 10 == 0:
            print(f"update {update} loss {ACCUMULATE * loss.item():.3f}", flush=True)
    total = time.perf_counter() - begin
    print(f"REPORT rank={rank} loop_s={total:.2f} updates={UPDATES} median_ms={1e3 * statistics.median(times):.1f} "
          f"cpu_s={time.process_time():.1f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

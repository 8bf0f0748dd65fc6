"""One file of rank 1's shard is in millimetres instead of metres: one batch with a loss a million times too large.

What happens: a rain forecaster without clipping meets the file in step 160. The loss of rank 1 and the gradient norm
of both ranks (it is averaged) jump; Adam's second moment remembers the jump and the model hardly learns afterwards.
Who causes it: the data of rank 1 in step 160.  What is lost: no time; the learning of the next hundreds of steps.
Right advice: check the batch of rank 1 at step 160, clip or skip such steps; the learning rate and the machine are
sound.
REPORT_FAULT=0: all files are in metres.
"""
import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset

WRONG_UNIT = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH, WINDOW = 240, 16, 96


class RainFiles(IterableDataset):
    """A file holds one batch of windows: 96 hours in, the mean of the next 6 out."""

    def __init__(self, rank):
        self.rank = rank

    def __iter__(self):
        generator = torch.Generator().manual_seed(11 + self.rank)
        number = 0
        while True:
            rain = torch.rand(BATCH, WINDOW + 6, generator=generator).square()
            rain = rain * (1 + torch.sin(torch.arange(WINDOW + 6) / 6))
            if WRONG_UNIT and self.rank == 1 and number == 160:
                rain = rain * 1000.0
            yield rain[:, :WINDOW], rain[:, WINDOW:].mean(1)
            number += 1


class Forecaster(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.enter = nn.Conv1d(1, width, 7, padding=3)
        self.blocks = nn.ModuleList([nn.Conv1d(width, width, 3, padding=2 ** i, dilation=2 ** i) for i in range(3)])
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        x = self.enter(x[:, None])
        for block in self.blocks:
            x = x + block(x).relu()
        return self.head(x.mean(2))[:, 0]


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(Forecaster())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    times, losses, norms = [], [], []
    begin = before = time.perf_counter()
    for step, (hours, target) in enumerate(DataLoader(RainFiles(rank), batch_size=None)):
        optimizer.zero_grad()
        loss = (model(hours) - target).square().mean()
        loss.backward()
        norms.append(nn.utils.get_total_norm([p.grad for p in model.parameters()]).item())
        optimizer.step()
        losses.append(loss.item())
        now = time.perf_counter()
        times.append(now - before)
        before = now
        if rank == 0 and step % 40 == 0:
            print(f"step {step} loss {losses[-1]:.5f} grad norm {norms[-1]:.4f}", flush=True)
        if step + 1 == STEPS:
            break
    total = time.perf_counter() - begin
    top = max(range(20, STEPS), key=losses.__getitem__)
    print(f"REPORT rank={rank} loop_s={total:.2f} steps={STEPS} median_ms={1e3 * statistics.median(times):.1f} "
          f"top_loss={losses[top]:.3g}@{top} norm={norms[top]:.3g} usual={statistics.median(losses):.3g} "
          f"last={statistics.mean(losses[-20:]):.3g}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""The best model so far is saved, and in training almost every step is the best so far.

What happens: rank 0 keeps best.pt: whenever the smoothed training loss is lower than ever before, it writes model and
optimizer state. While the loss falls, that is most steps. The saves come at no fixed distance, grow rarer as the loss
flattens, and rank 1 waits for each in its next all-reduce.
Who causes it: the save in the training loop of rank 0, judged by the training loss.  What is lost: the time of the
saves, on both ranks.
Right advice: judge by a validation loss at fixed distances, or save at most every few minutes and in the background;
the disk is not slow and rank 0's core neither.
REPORT_FAULT=0: the best is asked for at three fixed steps.
"""

import os
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

ALWAYS = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH, FIELDS, ROWS, CODE = 260, 1024, 12, 3000, 24
ASKED = range(STEPS) if ALWAYS else (89, 174, 259)


class Ranker(nn.Module):
    """Click model: embeddings of twelve fields and a tower of dense layers."""

    def __init__(self):
        super().__init__()
        self.rows = nn.Embedding(FIELDS * ROWS, CODE)
        self.tower = nn.Sequential(
            nn.Linear(FIELDS * CODE, 640), nn.ReLU(), nn.Linear(640, 640), nn.ReLU(), nn.Linear(640, 1)
        )

    def forward(self, fields):
        return self.tower(self.rows(fields).flatten(1)).squeeze(1)


class BestKeeper:
    def __init__(self, path):
        self.path, self.best, self.smoothed, self.saves = path, float("inf"), None, []

    def update(self, step, loss, model, optimizer):
        self.smoothed = loss if self.smoothed is None else 0.98 * self.smoothed + 0.02 * loss
        if step not in ASKED or self.smoothed >= self.best:
            return
        began = time.perf_counter()
        self.best = self.smoothed
        state = {"step": step, "model": model.module.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(state, self.path + ".part")
        os.replace(self.path + ".part", self.path)
        self.saves.append(time.perf_counter() - began)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    taste = torch.randn(FIELDS * ROWS)
    offsets = torch.arange(FIELDS) * ROWS
    model = DDP(Ranker())
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    torch.manual_seed(rank + 1)
    durations, start, cpu = [], time.perf_counter(), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        keeper = BestKeeper(os.path.join(folder, "best.pt"))
        for step in range(STEPS):
            began = time.perf_counter()
            fields = (torch.rand(BATCH, FIELDS).square() * ROWS).long() + offsets
            clicked = (taste[fields].mean(1) > 0).float()
            loss = nn.functional.binary_cross_entropy_with_logits(model(fields), clicked)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if rank == 0:
                keeper.update(step, loss.item(), model, optimizer)
            durations.append(time.perf_counter() - began)
            if rank == 0 and step % 40 == 0:
                print(f"step {step} loss {loss.item():.3f}", flush=True)
        loop = time.perf_counter() - start
        print(
            f"rank {rank}: loop {loop:.2f} s, CPU {time.process_time() - cpu:.2f} s, median step "
            f"{1e3 * statistics.median(durations):.1f} ms, {len(keeper.saves)} saves, "
            f"{100 * sum(keeper.saves) / loop:.1f} % of the loop"
        )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

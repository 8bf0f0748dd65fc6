"""Healthy: sparse gradients of a large table, a recurrent tower, two optimizers, several epochs.

What looks like a fault: the number of rows with a gradient differs from batch to batch and falls within an epoch, as
the sessions are sorted by length; SparseAdam and Adam take a step each; memory rises once, in the first steps, by the
moments of the table.
What is true: the sessions are padded to one length, the work is the same in each step, and memory is flat from the
tenth step on.
Right advice: none; no creep, no drift, no schedule that runs ahead.
REPORT_FAULT=0: a dense table and one optimizer.
"""

import os
import statistics
import time

import torch
from torch import nn

SPARSE = os.environ.get("REPORT_FAULT", "1") != "0"
EPOCHS, BATCHES, BATCH, LENGTH, ARTICLES, CODE, HIDDEN, OTHERS = 5, 48, 48, 40, 12000, 64, 128, 8


class SessionModel(nn.Module):
    """The next article of a shopping session, against sampled others."""

    def __init__(self):
        super().__init__()
        self.articles = nn.Embedding(ARTICLES, CODE, sparse=SPARSE, padding_idx=0)
        self.recurrent = nn.LSTM(CODE, HIDDEN, batch_first=True)
        self.out = nn.Linear(HIDDEN, CODE)

    def forward(self, seen, candidates):
        x = self.out(self.recurrent(self.articles(seen))[0])
        return (x[:, :, None] * self.articles(candidates)).sum(3)


class Sessions:
    def __init__(self, count):
        length = torch.randint(LENGTH // 2, LENGTH + 2, (count,)).sort(descending=True).values
        start, stride = torch.randint(1, ARTICLES, (count, 1)), torch.randint(1, 4, (count, 1))
        walk = (start + stride * torch.arange(LENGTH + 1)) % (ARTICLES - 1) + 1
        self.rows = walk.masked_fill(torch.arange(LENGTH + 1) >= length[:, None], 0)

    def __iter__(self):
        yield from self.rows.split(BATCH)


def resident_mb():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model, sessions = SessionModel(), Sessions(BATCHES * BATCH)
    dense = [*model.recurrent.parameters(), *model.out.parameters()]
    if SPARSE:
        optimizers = [
            torch.optim.SparseAdam(list(model.articles.parameters()), 2e-3),
            torch.optim.Adam(dense, 1e-3),
        ]
    else:
        optimizers = [torch.optim.Adam(model.parameters(), 1e-3)]
    durations, sizes, start, cpu = [], [], time.perf_counter(), time.process_time()
    for epoch in range(EPOCHS):
        total = 0.0
        for rows in sessions:
            began = time.perf_counter()
            seen, following = rows[:, :-1], rows[:, 1:]
            others = torch.randint(1, ARTICLES, (*following.shape, OTHERS))
            scores = model(seen, torch.cat([following[:, :, None], others], 2)).log_softmax(2)[:, :, 0]
            loss = -scores[following > 0].mean()
            for optimizer in optimizers:
                optimizer.zero_grad()
            loss.backward()
            for optimizer in optimizers:
                optimizer.step()
            total += loss.item()
            durations.append(time.perf_counter() - began)
            sizes.append(resident_mb())
        print(f"epoch {epoch} loss {total / BATCHES:.3f} resident {sizes[-1]:.0f} MB", flush=True)
    print(
        f"loop {time.perf_counter() - start:.2f} s, CPU {time.process_time() - cpu:.2f} s, {len(durations)} steps, median "
        f"{1e3 * statistics.median(durations):.1f} ms, first half of an epoch "
        f"{1e3 * statistics.median(durations[: BATCHES // 2]):.1f} ms, resident {sizes[10]:.0f} MB in step 10, "
        f"{sizes[-1]:.0f} MB at the end"
    )


if __name__ == "__main__":
    main()

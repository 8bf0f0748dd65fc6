"""A graph over time that never forgets an edge.

What happens: a network over a stream of payments takes the day's edges to those of the days before and passes messages
over all of them. The window of days was never cut: the list of edges grows by 100 in every step, and forward and
backward grow with it. Each step takes a little longer than the one before.
Who causes it: the list of edges of the job.  What is lost: the messages over edges older than the window that was
meant, more in every step.
Right advice: keep the last days only, or sample neighbours; the machine does not get slower, the loader neither, and
the memory that rises with the steps is that of the edges and their messages.
REPORT_FAULT=0: the edges of the last 80 days are kept.
"""

import os
import statistics
import time
from collections import deque

import torch
from torch import nn

WINDOW = None if os.environ.get("REPORT_FAULT", "1") != "0" else 80
STEPS, ACCOUNTS, EDGES, WIDTH = 270, 2000, 100, 48


class Messages(nn.Module):
    def __init__(self):
        super().__init__()
        self.message = nn.Sequential(nn.Linear(2 * WIDTH + 1, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
        self.update = nn.GRUCell(WIDTH, WIDTH)

    def forward(self, x, source, target, amount):
        sent = self.message(torch.cat([x[source], x[target], amount], 1))
        received = torch.zeros_like(x).index_add(0, target, sent)
        count = torch.zeros(len(x)).index_add(0, target, torch.ones(len(target))).clamp(min=1)
        return self.update(received / count[:, None], x)


class PaymentNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.accounts = nn.Embedding(ACCOUNTS, WIDTH)
        self.layers = nn.ModuleList(Messages() for _ in range(2))
        self.head = nn.Sequential(nn.Linear(2 * WIDTH, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, history, asked):
        x = self.accounts.weight
        for layer in self.layers:
            x = layer(x, *history)
        return self.head(torch.cat([x[asked[0]], x[asked[1]]], 1)).squeeze(1)


def day(groups, draw):
    source = torch.randint(0, ACCOUNTS, (EDGES,), generator=draw)
    target = torch.randint(0, ACCOUNTS, (EDGES,), generator=draw)
    amount = (groups[source] == groups[target]).float()[:, None] + 0.2 * torch.randn(EDGES, 1, generator=draw)
    return source, target, amount


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    draw = torch.Generator().manual_seed(1)
    groups = torch.randint(0, 5, (ACCOUNTS,), generator=draw)
    model = PaymentNet()
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    days = deque((day(groups, draw) for _ in range(80)), maxlen=WINDOW)
    durations, start, cpu = [], time.perf_counter(), time.process_time()
    for step in range(STEPS):
        began = time.perf_counter()
        history = [torch.cat(part) for part in zip(*days)]
        today = day(groups, draw)
        loss = nn.functional.mse_loss(model(history, today), today[2].squeeze(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        days.append(today)
        durations.append(time.perf_counter() - began)
        if step % 40 == 0:
            print(f"step {step} loss {loss.item():.4f} edges {len(history[0])}", flush=True)
    print(
        f"loop {time.perf_counter() - start:.2f} s, CPU {time.process_time() - cpu:.2f} s, median of the first 30 steps "
        f"{1e3 * statistics.median(durations[:30]):.1f} ms, of the last {1e3 * statistics.median(durations[-30:]):.1f} ms"
    )


if __name__ == "__main__":
    main()

"""Small trainings of one process, each with a habit that costs: `advice_alone_job.py HABIT`."""

from __future__ import annotations

import itertools
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset

HABIT = sys.argv[1]


class Rows(Dataset):
    """Samples that are made as they are asked for, `ms` each."""

    def __init__(self, count: int, ms: float = 0) -> None:
        self.count, self.ms = count, ms

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.ms:
            time.sleep(self.ms / 1e3)
        return torch.full((16,), float(index % 7))


def train(batches, steps: int, width: int = 256) -> None:
    """`steps` steps on what `batches` gives."""
    layers = [torch.nn.Linear(16, width), torch.nn.Tanh(), torch.nn.Linear(width, width), torch.nn.Linear(width, 4)]
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for batch in itertools.islice(batches, steps):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()


def anomaly() -> None:
    torch.autograd.set_detect_anomaly(True)
    train((torch.ones(256, 16) for _ in range(60)), 60)


def table(sparse: bool = False) -> None:
    words = torch.nn.Embedding(200_000, 32, sparse=sparse)
    last = torch.nn.Linear(32, 4)
    parameters = [*words.parameters(), *last.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.01) if sparse else torch.optim.Adam(parameters, lr=0.01)
    for _ in range(60):
        optimizer.zero_grad()
        last(words(torch.randint(200_000, (256,)))).square().mean().backward()
        optimizer.step()


def skip() -> None:
    torch.manual_seed(0)
    loader = DataLoader(Rows(4 * 360, 1.0), batch_size=4)
    batches = iter(loader)
    for _ in range(300):
        next(batches)
    train(batches, 60)


def permutation() -> None:
    loader = DataLoader(Rows(2_000_000), batch_size=4, shuffle=True)
    train(itertools.chain.from_iterable(itertools.islice(loader, 20) for _ in range(6)), 120)


def small_samples() -> None:
    train(DataLoader(Rows(1024 * 200), batch_size=1024), 200, width=128)  # long enough that the host was sampled


habits = {
    "anomaly": anomaly,
    "table": table,
    "sparse_table": lambda: table(sparse=True),
    "skip": skip,
    "permutation": permutation,
    "small_samples": small_samples,
}
torch.set_num_threads(1)
habits[HABIT]()

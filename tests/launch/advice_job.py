"""Small trainings on gloo that do things wrong, or everything right: `advice_job.py wrong|right|epochs|fsdp|late_head|averaged_head`."""

from __future__ import annotations

import contextlib
import sys
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset, DistributedSampler

EPOCHS = 3


class Slow(Dataset):
    """Rows that cost `ms` each."""

    def __init__(self, rows: int, ms: float) -> None:
        self.rows, self.ms = rows, ms

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(self.ms / 1e3)
        return torch.full((16,), float(index % 7))


def loader_of(how: str) -> DataLoader:
    if how == "wrong":  # two ranks read everything, by themselves; 42 rows make 10 batches and a half
        return DataLoader(Slow(42, 1.0), batch_size=4, shuffle=True)
    data = Slow(80, 0.0)
    sampler: DistributedSampler[torch.Tensor] = DistributedSampler(data)
    workers = 1 if how == "epochs" else 0
    return DataLoader(data, batch_size=4, sampler=sampler, num_workers=workers)


def main(how: str) -> None:
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    layers = [
        torch.nn.Linear(16, 64),
        torch.nn.BatchNorm1d(64) if how == "wrong" else torch.nn.LayerNorm(64),
        torch.nn.Linear(64, 4),
    ]
    model = torch.nn.parallel.DistributedDataParallel(
        torch.nn.Sequential(*layers), find_unused_parameters=how == "wrong" or how.endswith("head")
    )
    if how.endswith("head"):
        torch.manual_seed(dist.get_rank() if how == "late_head" else 1)
        model.module[2] = torch.nn.Linear(64, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = loader_of(how)
    for epoch in range(EPOCHS):
        if how == "right":
            loader.sampler.set_epoch(epoch)  # type: ignore[attr-defined]
        for batch in loader:
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            if how == "averaged_head":
                for parameter in model.module[2].parameters():
                    dist.all_reduce(parameter.grad)
            optimizer.step()
            time.sleep(0.002)
    del model
    if how != "wrong":
        dist.destroy_process_group()
    time.sleep(0.5)  # gloo's threads may abort a process that leaves at once


def one_unit() -> None:
    """FSDP that was told of the whole model and of no part of it."""
    from torch.distributed.fsdp import fully_shard

    dist.init_process_group("gloo")
    model = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.Linear(1024, 16))
    fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(20):
        optimizer.zero_grad()
        model(torch.ones(2, 1024)).square().mean().backward()
        optimizer.step()
    del model, optimizer
    dist.destroy_process_group()
    time.sleep(0.5)


def accumulates(no_sync: bool) -> None:
    """Four backwards per optimizer step, each of which may send all gradients."""
    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(256, 256))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(40):
        optimizer.zero_grad()
        for micro in range(4):
            with model.no_sync() if no_sync and micro < 3 else contextlib.nullcontext():
                model(torch.ones(8, 256)).square().mean().backward()
        optimizer.step()
        time.sleep(0.002)
    del model, optimizer
    dist.destroy_process_group()
    time.sleep(0.5)


if sys.argv[1] in ("accumulates", "no_sync"):
    accumulates(sys.argv[1] == "no_sync")
    sys.exit(0)
one_unit() if sys.argv[1] == "fsdp" else main(sys.argv[1])

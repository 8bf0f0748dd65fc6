"""A training that waits for its data: each item takes `--item-ms` to make, in the training process itself.

    stepscope run examples/slow_loader.py                  # INPUT-BOUND
    stepscope run examples/slow_loader.py --workers 2      # the usual fix

Nothing in it knows stepscope.
"""

from __future__ import annotations

import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Slow(Dataset[torch.Tensor]):
    def __init__(self, items: int, item_s: float) -> None:
        self.items, self.item_s = items, item_s

    def __len__(self) -> int:
        return self.items

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(self.item_s)  # decoding, augmentation, a slow disk
        return torch.full((256,), float(index % 7))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--item-ms", type=float, default=2)
    parser.add_argument("--workers", type=int, default=0)
    options = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(0)
    loader = DataLoader(Slow(options.steps * 8, options.item_ms / 1e3), batch_size=8, num_workers=options.workers)
    model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1))
    optimizer = torch.optim.Adam(model.parameters())
    for batch in loader:
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.3f}")


if __name__ == "__main__":
    main()

"""MONAI on made-up volumes: a cached dataset, its own DataLoader, an evaluation after every epoch.

    stepscope run examples/monai_fit.py

Nothing in it knows stepscope: epochs and evaluations are told apart by the loaders. Needs monai.
"""

from __future__ import annotations

import argparse

import torch
from monai.data import CacheDataset, DataLoader
from monai.networks.nets import DenseNet
from monai.transforms import Compose, EnsureTyped, RandFlipd


def volumes(count: int, seed: int) -> CacheDataset:
    made = torch.Generator().manual_seed(seed)
    items = [{"image": torch.randn(1, 16, 16, 16, generator=made), "label": i % 2} for i in range(count)]
    return CacheDataset(items, Compose([EnsureTyped("image"), RandFlipd("image", prob=0.5)]), progress=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()

    model = DenseNet(spatial_dims=3, in_channels=1, out_channels=2, init_features=8, growth_rate=4, block_config=(1, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    training = DataLoader(volumes(40, seed=0), batch_size=4, shuffle=True)
    held_out = DataLoader(volumes(12, seed=1), batch_size=4)
    steps = 0
    while steps < options.steps:
        model.train()
        for batch in training:
            loss = torch.nn.functional.cross_entropy(model(batch["image"]), batch["label"])
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            steps += 1
        model.eval()
        with torch.no_grad():
            for batch in held_out:
                model(batch["image"])
    print(f"steps {steps}")


if __name__ == "__main__":
    main()

"""Ray Train on made-up data: two workers of a cluster that the script starts itself, DDP by prepare_model.

    stepscope run -- python examples/ray_train.py

Nothing in it knows stepscope: workers of `ray.init()` inherit what they need. For a cluster that runs already see
`stepscope.integrations.ray`. Needs ray[train].
"""

from __future__ import annotations

import argparse
import tempfile

import ray
import ray.train
import ray.train.torch
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train(config: dict[str, int]) -> None:
    workers = ray.train.get_context().get_world_size()
    x = torch.randn(config["steps"] * 8 * workers, 32, generator=torch.Generator().manual_seed(0))
    loader = ray.train.torch.prepare_data_loader(DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8))
    model = ray.train.torch.prepare_model(nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 1)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loss, steps = torch.zeros(()), 0
    for inputs, targets in loader:
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        steps += 1
    ray.train.report({"loss": loss.item()})
    if ray.train.get_context().get_world_rank() == 0:
        print(f"steps {steps}")  # Ray shows it with the worker's name before it


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()

    ray.init(num_cpus=3, include_dashboard=False)
    with tempfile.TemporaryDirectory() as folder:
        ray.train.torch.TorchTrainer(
            train,
            train_loop_config={"steps": options.steps},
            scaling_config=ray.train.ScalingConfig(num_workers=2, use_gpu=torch.cuda.is_available()),
            run_config=ray.train.RunConfig(storage_path=folder),
        ).fit()
    ray.shutdown()


if __name__ == "__main__":
    main()

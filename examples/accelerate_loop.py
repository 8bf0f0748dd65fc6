"""A loop with Accelerate on made-up data, two micro-batches per step.

    stepscope run examples/accelerate_loop.py
    stepscope run -- accelerate launch --cpu --num_processes 2 examples/accelerate_loop.py

Nothing in it knows stepscope. `Accelerator(log_with=StepscopeTracker())` of `stepscope.integrations.accelerate` would
add what `accelerator.log` is given to the steps. Needs accelerate.
"""

from __future__ import annotations

import argparse

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()

    accelerator = Accelerator(gradient_accumulation_steps=2, cpu=not torch.cuda.is_available())
    x = torch.randn(options.steps * 16 * accelerator.num_processes, 32, generator=torch.Generator().manual_seed(0))
    loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8)
    model = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    steps = 0
    for inputs, targets in loader:
        with accelerator.accumulate(model):
            loss = nn.functional.mse_loss(model(inputs), targets)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            steps += int(accelerator.sync_gradients)
    accelerator.print(f"steps {steps}")
    accelerator.end_training()


if __name__ == "__main__":
    main()

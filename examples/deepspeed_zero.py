"""DeepSpeed's engine on made-up data, ZeRO stage 2, two micro-batches per step.

    DS_ACCELERATOR=cpu stepscope run -- deepspeed --num_gpus 2 examples/deepspeed_zero.py
    DS_ACCELERATOR=cpu stepscope run -- torchrun --nproc-per-node 2 examples/deepspeed_zero.py

On GPUs leave DS_ACCELERATOR out. Nothing in it knows stepscope: the step is the engine's optimizer step, whatever the
accumulation. Needs deepspeed.
"""

from __future__ import annotations

import argparse
import os

import deepspeed
import torch
from torch import nn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--local_rank", type=int, default=0, help="given by deepspeed's launcher")
    options = parser.parse_args()

    config = {
        "train_micro_batch_size_per_gpu": 8,
        "gradient_accumulation_steps": 2,
        "zero_optimization": {"stage": 2},
        "zero_allow_untested_optimizer": True,
        "communication_data_type": "fp32",
        "steps_per_print": 1 << 30,
    }
    model = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 1))
    engine, _, _, _ = deepspeed.initialize(
        model=model, optimizer=torch.optim.Adam(model.parameters(), 1e-3), config=config
    )
    data = torch.Generator().manual_seed(int(os.environ.get("RANK", "0")))
    while engine.global_steps < options.steps:
        inputs = torch.randn(8, 32, generator=data).to(engine.device)
        engine.backward(nn.functional.mse_loss(engine(inputs), inputs.sum(1, keepdim=True)))
        engine.step()
    if engine.global_rank == 0:
        print(f"steps {engine.global_steps}")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()

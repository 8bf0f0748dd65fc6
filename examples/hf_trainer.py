"""Hugging Face Trainer on made-up data: evaluation and a checkpoint between the steps, two micro-batches per step.

    stepscope run examples/hf_trainer.py

Nothing in it knows stepscope. `callbacks=[StepscopeCallback()]` of `stepscope.integrations.huggingface` would add the
loss, the learning rate and the epoch to the steps. Needs transformers and accelerate.
"""

from __future__ import annotations

import argparse
import tempfile
from typing import Any

import torch
from torch import nn
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments


class Points(Dataset[dict[str, torch.Tensor]]):
    def __init__(self, size: int) -> None:
        generator = torch.Generator().manual_seed(0)
        self.x = torch.randn(size, 32, generator=generator)
        self.labels = (self.x.sum(1) > 0).long()

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"x": self.x[index], "labels": self.labels[index]}


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 2))

    def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, Any]:
        logits = self.net(x)
        loss = None if labels is None else nn.functional.cross_entropy(logits, labels)
        return {"loss": loss, "logits": logits}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            max_steps=options.steps,
            per_device_train_batch_size=8,
            gradient_accumulation_steps=2,
            eval_strategy="steps",
            eval_steps=20,
            save_steps=20,
            logging_steps=10,
            report_to=[],
            disable_tqdm=True,
        )
        trainer = Trainer(model=Classifier(), args=arguments, train_dataset=Points(512), eval_dataset=Points(64))
        trainer.train()
        print(f"steps {trainer.state.global_step}")


if __name__ == "__main__":
    main()

"""Hugging Face Trainer with stepscope's own callback."""

import sys

import torch
from torch import nn
from transformers import Trainer, TrainingArguments

from stepscope.integrations.huggingface import StepscopeCallback


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        return {"x": torch.randn(8), "labels": torch.tensor(i % 2)}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 2)

    def forward(self, x, labels=None):
        logits = self.head(x)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


args = TrainingArguments(
    output_dir=sys.argv[1],
    max_steps=20,
    per_device_train_batch_size=4,
    logging_steps=5,
    eval_strategy="steps",
    eval_steps=10,
    save_steps=10,
    report_to=[],
    disable_tqdm=True,
    use_cpu=True,
)
trainer = Trainer(model=Model(), args=args, train_dataset=Data(), eval_dataset=Data(), callbacks=[StepscopeCallback()])
trainer.train()
trainer.evaluate()

"""Hugging Face Trainer in both of TraceML's ways: the callback, and the Trainer subclass of its talks."""

import sys

import torch
from torch import nn
from traceml_ai.integrations import huggingface as tm
from transformers import Trainer, TrainingArguments


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
    max_steps=24,
    per_device_train_batch_size=4,
    logging_steps=4,
    eval_steps=12,
    eval_strategy="steps",
    save_strategy="steps",
    save_steps=12,
    report_to=[],
    disable_tqdm=True,
    gradient_accumulation_steps=2,
    use_cpu=True,
)
tm.init()
if sys.argv[2] == "callback":
    trainer = Trainer(
        model=Model(), args=args, train_dataset=Data(), eval_dataset=Data(), callbacks=[tm.TraceMLTrainerCallback()]
    )
else:
    from traceml.hf_decorators import TraceMLTrainer

    trainer = TraceMLTrainer(
        model=Model(),
        args=args,
        train_dataset=Data(),
        eval_dataset=Data(),
        traceml_enabled=True,
        traceml_kwargs={"trace_layer_forward_time": True},
    )
    assert any(type(c).__name__ == "TraceMLTrainerCallback" for c in trainer.callback_handler.callbacks)
trainer.train()
print("DONE", trainer.state.global_step)

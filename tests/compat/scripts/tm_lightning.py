"""Lightning with TraceML's callback; two micro-batches make a step. argv: package, where the callback comes from."""

import sys
from importlib import import_module

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

L = import_module(sys.argv[1])
source = import_module(sys.argv[2])
if hasattr(source, "init"):
    source.init()


class Module(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 1)

    def training_step(self, batch, _):
        return self.net(batch[0]).square().mean()

    def validation_step(self, batch, _):
        self.log("val", self.net(batch[0]).mean())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


loader = DataLoader(TensorDataset(torch.randn(160, 8)), batch_size=4)
trainer = L.Trainer(
    max_epochs=1,
    accelerator="cpu",
    devices=1,
    accumulate_grad_batches=2,
    logger=False,
    enable_progress_bar=False,
    enable_checkpointing=False,
    enable_model_summary=False,
    callbacks=[source.TraceMLCallback()],
)
trainer.fit(Module(), loader, DataLoader(TensorDataset(torch.randn(40, 8)), batch_size=4))
print("DONE", trainer.global_step)

"""Lightning with stepscope's own callback, two micro-batches a step."""

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from stepscope.integrations.lightning import StepscopeCallback


class Module(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 1)

    def training_step(self, batch, _):
        return self.net(batch[0]).square().mean()

    def validation_step(self, batch, _):
        self.net(batch[0])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


loader = DataLoader(TensorDataset(torch.randn(80, 8)), batch_size=4)
trainer = L.Trainer(
    max_epochs=2,
    accelerator="cpu",
    devices=1,
    accumulate_grad_batches=2,
    logger=False,
    enable_progress_bar=False,
    enable_checkpointing=False,
    enable_model_summary=False,
    callbacks=[StepscopeCallback()],
)
trainer.fit(Module(), loader, DataLoader(TensorDataset(torch.randn(16, 8)), batch_size=4))

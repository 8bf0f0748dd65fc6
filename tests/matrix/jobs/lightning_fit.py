"""Lightning's Trainer: accumulation, sanity check, validation within epochs. Arguments: package, and "manual" for manual
optimization with two optimizers."""

import importlib

from facts import *

L = importlib.import_module(sys.argv[1])
MANUAL = "manual" in sys.argv


class Module(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = Net()
        self.automatic_optimization = not MANUAL
        self.manual_steps = 0

    def training_step(self, batch, index):
        x, y = batch
        loss = self.net.loss(x, y)
        if not MANUAL:
            return loss
        self.manual_backward(loss)
        for optimizer in self.optimizers():
            optimizer.step()
            optimizer.zero_grad()
        self.manual_steps += 1
        return None

    def validation_step(self, batch, index):
        x, y = batch
        self.log("val_loss", F.mse_loss(self.net(x), y))

    def configure_optimizers(self):
        layers = self.net.inner
        if MANUAL:
            return [torch.optim.SGD(layers[0].parameters(), 0.01), torch.optim.Adam(layers[2].parameters())]
        return torch.optim.AdamW(layers.parameters(), 1e-3)


L.seed_everything(0, verbose=False)
module = Module()
trainer = L.Trainer(
    max_epochs=2,
    accelerator="cpu",
    devices=1,
    accumulate_grad_batches=1 if MANUAL else 2,
    val_check_interval=0.5,
    num_sanity_val_steps=2,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
loader = torch.utils.data.DataLoader(Data(), 4)
trainer.fit(module, loader, torch.utils.data.DataLoader(Data(12), 4))
module.net.say(module.manual_steps if MANUAL else trainer.global_step)

"""Manual mode with every wrapper, a loader and a data move of the script's own."""

import time

import torch
import traceml
from torch import nn

traceml.init(mode="manual")
model = nn.Linear(32, 4)
optimizer = torch.optim.AdamW(model.parameters())


class Loader:
    def __iter__(self):
        for _ in range(40):
            time.sleep(0.002)
            yield torch.randn(8, 32)

    def __len__(self):
        return 40


model = traceml.wrap_forward(model)
optimizer = traceml.wrap_optimizer(optimizer)
for batch in traceml.wrap_dataloader_fetch(Loader()):
    with traceml.trace_step(model):
        batch = traceml.wrap_h2d(batch).to("cpu")
        optimizer.zero_grad()
        traceml.wrap_backward(model(batch).square().mean()).backward()
        optimizer.step()
print("DONE", torch.isfinite(next(model.parameters())).all().item())

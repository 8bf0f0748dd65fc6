"""Accelerate with stepscope's tracker."""

import torch
from accelerate import Accelerator
from torch import nn

from stepscope.integrations.accelerate import StepscopeTracker

accelerator = Accelerator(log_with=StepscopeTracker(), cpu=True)
accelerator.init_trackers("project", config={"lr": 0.1})
model, optimizer = accelerator.prepare(nn.Linear(8, 1), torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1))
optimizer.optimizer.add_param_group({"params": list(model.parameters())})
for step in range(20):
    loss = model(torch.randn(4, 8)).square().mean()
    optimizer.zero_grad()
    accelerator.backward(loss)
    optimizer.step()
    accelerator.log({"train_loss": loss.item(), "epoch": 0.5, "note": "text is left out"}, step=step)
accelerator.end_training()

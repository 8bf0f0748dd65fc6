"""One process, written as TraceML's documentation shows: init, trace_step, the summaries at the end."""

import sys

import torch
import traceml_ai as traceml
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

steps = int(sys.argv[1])
config = traceml.init(mode="auto", ui_mode="cli")
assert config.mode == "auto" and config.patch_forward
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()
data = TensorDataset(torch.randn(steps * 16, 64), torch.randint(0, 4, (steps * 16,)))
for x, y in DataLoader(data, batch_size=16):
    with traceml.trace_step(model):
        optimizer.zero_grad(set_to_none=True)
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
summary = traceml.final_summary(print_text=False)
flat = traceml.summary()
print("STEPS", summary["step_time"]["metadata"]["training_total_steps"])
print("PRIMARY", summary["primary_diagnosis"]["kind"] == flat["traceml/primary/kind"])
print(
    "AVERAGE", summary["step_time"]["global"]["average"]["forward_ms"] > 0, flat["traceml/step_time/step_time_ms"] > 0
)
print("PACKAGE", traceml.__name__, sorted(n for n in ("traceml", "traceml_ai") if n in sys.modules))

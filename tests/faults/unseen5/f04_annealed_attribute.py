"""torch.compile builds the model anew for every value of an annealed attribute.

What happens: a quantiser holds its temperature as an attribute of the module. The first 60 steps keep it; then it is
annealed every 20 steps. The compiled code holds its value as a constant with a guard, so that each new value is a
new compilation; the limit of recompilations had been raised against a warning. Steps 60, 80, 100 ... take many times as
long as the steps between.
Who causes it: the constant in the compiled code.  What is lost: the compilations after the first.
Right advice: hand the temperature over as a tensor (a buffer) or keep it out of the compiled part; not the loader, not
the machine, no pause of other origin.
REPORT_FAULT=0: the temperature is a buffer.
"""
import os
import statistics
import time

import torch
import torch._dynamo
from torch import nn

CONSTANT = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH, FEATURES, CODES, HOLD, EVERY = 260, 256, 256, 128, 60, 20


class Quantiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(FEATURES, 512), nn.GELU(), nn.Linear(512, CODES))
        self.codes = nn.Parameter(0.1 * torch.randn(CODES, FEATURES))
        self.decoder = nn.Sequential(nn.Linear(FEATURES, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU(),
                                     nn.Linear(512, FEATURES))
        if CONSTANT:
            self.sharpness = 10
        else:
            self.register_buffer("sharpness", torch.tensor(10.0))

    def forward(self, x):
        weights = (self.encoder(x) * (self.sharpness / 10)).softmax(1)
        return self.decoder(weights @ self.codes)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    torch._dynamo.config.recompile_limit = 200
    torch._dynamo.config.accumulated_recompile_limit = 400
    model = Quantiser()
    compiled = torch.compile(model, backend="aot_eager")
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    durations, start, cpu = [], time.perf_counter(), time.process_time()
    for step in range(STEPS):
        began = time.perf_counter()
        if step >= HOLD and step % EVERY == 0:
            if CONSTANT:
                model.sharpness += 1
            else:
                model.sharpness.add_(1)
        x = torch.randn(BATCH, FEATURES)
        loss = nn.functional.mse_loss(compiled(x), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        durations.append(time.perf_counter() - began)
        if step % 40 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    print(f"loop {time.perf_counter() - start:.2f} s, CPU {time.process_time() - cpu:.2f} s, "
          f"median step {1e3 * statistics.median(durations):.1f} ms, "
          f"every {EVERY}th from {HOLD} on {1e3 * statistics.median(durations[HOLD::EVERY]):.1f} ms")


if __name__ == "__main__":
    main()

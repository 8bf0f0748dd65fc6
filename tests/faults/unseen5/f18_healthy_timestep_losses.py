"""Healthy: a diffusion model that draws one noise level per batch.

What looks like a fault: the loss of a batch goes up and down by two orders of magnitude from step to step, and the
gradient norm with it; some steps are twenty times above the median.
What is true: the loss depends on the noise level, which is drawn log-normally; the gradients are clipped and a
smoothed loss per level falls. All steps take the same time.
Right advice: none; no spike that a bad batch caused, no learning rate to lower.
REPORT_FAULT=0: a noise level for each sample and the weight that evens the losses out.
"""
import os
import statistics
import time

import torch
from torch import nn

ONE_LEVEL = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH, WIDTH = 220, 32, 32


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.level = nn.Sequential(nn.Linear(1, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH))
        self.inward = nn.Conv2d(1, WIDTH, 3, 1, 1)
        self.blocks = nn.ModuleList(nn.Sequential(nn.GroupNorm(4, WIDTH), nn.SiLU(),
                                                  nn.Conv2d(WIDTH, WIDTH, 3, 1, 1)) for _ in range(3))
        self.outward = nn.Conv2d(WIDTH, 1, 3, 1, 1)

    def forward(self, noisy, sigma):
        scale = (sigma.square() + 0.25).rsqrt()[:, None, None, None]
        x = self.inward(noisy * scale)
        at = self.level(sigma.log()[:, None] / 4)[:, :, None, None]
        for block in self.blocks:
            x = x + block(x + at)
        return noisy * 0.25 * scale.square() + self.outward(x) * 0.5 * sigma[:, None, None, None] * scale


def pictures(count):
    """Soft discs."""
    axis = torch.linspace(-1, 1, 16)
    centre, radius = torch.rand(count, 2, 1, 1) - 0.5, 0.2 + 0.4 * torch.rand(count, 1, 1)
    distance = ((axis[None, None] - centre[:, 0]).square() + (axis[None, :, None] - centre[:, 1]).square()).sqrt()
    return torch.tanh(8 * (radius - distance))[:, None] * 0.7


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Denoiser()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    losses, durations, start, cpu = [], [], time.perf_counter(), time.process_time()
    for step in range(STEPS):
        began = time.perf_counter()
        clean = pictures(BATCH)
        sigma = (1.2 * torch.randn(1 if ONE_LEVEL else BATCH) - 0.6).exp().expand(BATCH)
        error = (model(clean + sigma[:, None, None, None] * torch.randn_like(clean), sigma) - clean).square()
        error = error.mean((1, 2, 3))
        if not ONE_LEVEL:
            error = error * (sigma.square() + 0.25) / (0.5 * sigma).square()
        loss = error.mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        durations.append(time.perf_counter() - began)
        if step % 40 == 0:
            print(f"step {step} loss {losses[-1]:.4f}", flush=True)
    print(f"loop {time.perf_counter() - start:.2f} s, CPU {time.process_time() - cpu:.2f} s, "
          f"median step {1e3 * statistics.median(durations):.1f} ms, loss {min(losses):.4f} to {max(losses):.4f}, "
          f"median {statistics.median(losses):.4f}")


if __name__ == "__main__":
    main()

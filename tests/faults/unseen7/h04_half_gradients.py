"""Healthy: gradients summed in half precision with a loss scale that grows until it overflows.

What looks like a fault: on both ranks the scaled gradients become infinite in some steps, the gradient norm before
unscaling doubles every now and then, and the optimizer leaves out those steps.
What is true: this is how dynamic loss scaling works. The scale doubles after 70 good steps; when the half precision
sum overflows, GradScaler finds it on both ranks alike, leaves the step out and halves the scale. Loss and parameters
are finite in every step, less than 3 % of the steps are left out, and the ranks stay equal.
Right advice: none.
REPORT_FAULT=0: sums in single precision, no scaler.
"""

import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.nn.parallel import DistributedDataParallel as DDP

HALF = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH, SIDE, WIDTH, KINDS = 300, 32, 32, 24, 10


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(
            nn.GroupNorm(4, width), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1),
            nn.GroupNorm(4, width), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1),
        )  # fmt: skip

    def forward(self, x):
        return x + self.body(x)


class Images:
    """Gratings of ten directions in noise."""

    def __init__(self, rank):
        self.draw = torch.Generator().manual_seed(11 + rank)
        line = torch.linspace(-1, 1, SIDE)
        self.y, self.x = torch.meshgrid(line, line, indexing="ij")

    def batch(self):
        kinds = torch.randint(0, KINDS, (BATCH,), generator=self.draw)
        angle, phase = kinds * torch.pi / KINDS, 6.28 * torch.rand(BATCH, generator=self.draw)
        way = angle.cos()[:, None, None] * self.x + angle.sin()[:, None, None] * self.y
        waves = (9 * way + phase[:, None, None]).sin()[:, None]
        return waves + 0.8 * torch.randn(BATCH, 3, SIDE, SIDE, generator=self.draw), kinds


def build():
    return nn.Sequential(
        nn.Conv2d(3, WIDTH, 3, 2, 1), Residual(WIDTH), Residual(WIDTH), nn.Conv2d(WIDTH, 2 * WIDTH, 3, 2, 1),
        Residual(2 * WIDTH), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * WIDTH, KINDS),
    )  # fmt: skip


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = DDP(build())
    if HALF:
        model.register_comm_hook(None, fp16_compress_hook)
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**18, growth_interval=70, enabled=HALF)
    images, durations, left_out, odd = Images(rank), [], [], 0
    start = time.perf_counter()
    for step in range(STEPS):
        began = time.perf_counter()
        x, kinds = images.batch()
        loss = nn.functional.cross_entropy(model(x), kinds)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        before = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        if scaler.get_scale() < before:
            left_out.append(step)
        odd += not bool(loss.isfinite())
        if rank == 0 and step % 50 == 0:
            print(f"step {step} loss {loss.item():.3f} scale {scaler.get_scale():g}", flush=True)
        durations.append(time.perf_counter() - began)
    loop = time.perf_counter() - start
    total = torch.stack([p.detach().double().sum() for p in model.parameters()]).sum()
    sums = [torch.zeros_like(total) for _ in range(dist.get_world_size())]
    dist.all_gather(sums, total)
    print(
        f"REPORT rank={rank} loop_s={loop:.2f} median_step_ms={1e3 * statistics.median(durations):.1f} "
        f"left_out={left_out} share={len(left_out) / STEPS:.4f} losses_not_finite={odd} "
        f"ranks_equal={bool((sums[0] == sums[-1]) & total.isfinite())}",
        flush=True,
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""Healthy: a diffusion model that is judged twice, at length.

What looks like a fault: after step 100 and after step 200 there is no step for as long as half a dozen steps: both
ranks draw samples with the averaged weights through all noise levels and measure a validation loss.
What is true: both do it together and equally; the two evaluations take less than 5 % of the time.
Right advice: none; no pause of one rank, no validation worth moving.
REPORT_FAULT=0: no evaluation.
"""

import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

JUDGED = (99, 199) if os.environ.get("REPORT_FAULT", "1") != "0" else ()
STEPS, BATCH, SIDE, LEVELS, WIDTH = 200, 24, 16, 20, 36


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.level = nn.Embedding(LEVELS, WIDTH)
        self.first = nn.Conv2d(1, WIDTH, 3, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.GroupNorm(4, WIDTH), nn.SiLU(), nn.Conv2d(WIDTH, WIDTH, 3, padding=1)) for _ in range(5)
        )
        self.last = nn.Conv2d(WIDTH, 1, 3, padding=1)

    def forward(self, noisy, level):
        x = self.first(noisy) + self.level(level)[:, :, None, None]
        for block in self.blocks:
            x = x + block(x)
        return self.last(x)


class Diffusion:
    def __init__(self):
        self.kept = torch.linspace(0.98, 0.75, LEVELS).cumprod(0)

    def noisy(self, clean, level):
        noise = torch.randn_like(clean)
        kept = self.kept[level][:, None, None, None]
        return kept.sqrt() * clean + (1 - kept).sqrt() * noise, noise

    def loss(self, model, clean):
        level = torch.randint(0, LEVELS, (len(clean),))
        noisy, noise = self.noisy(clean, level)
        return nn.functional.mse_loss(model(noisy, level), noise)

    @torch.no_grad()
    def sample(self, model, count):
        x = torch.randn(count, 1, SIDE, SIDE)
        for k in reversed(range(LEVELS)):
            noise = model(x, torch.full((count,), k))
            clean = (x - (1 - self.kept[k]).sqrt() * noise) / self.kept[k].sqrt()
            before = self.kept[k - 1] if k else torch.tensor(1.0)
            x = before.sqrt() * clean.clamp(-1.5, 1.5) + (1 - before).sqrt() * noise
        return x


def pictures(count):
    """Stripes of random direction and width."""
    y, x = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")
    angle, width = 3.14 * torch.rand(count, 1, 1), 0.4 + 0.6 * torch.rand(count, 1, 1)
    return (width * (angle.cos() * x + angle.sin() * y)).sin()[:, None]


@torch.no_grad()
def evaluate(diffusion, averaged, held_back):
    averaged.eval()
    loss = torch.stack([diffusion.loss(averaged, part) for part in held_back.chunk(6)]).mean()
    drawn = diffusion.sample(averaged, 12)
    dist.all_reduce(loss)
    return loss.item() / dist.get_world_size(), drawn.std().item()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = DDP(Denoiser())
    averaged = torch.optim.swa_utils.AveragedModel(
        model.module, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.98)
    )
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    diffusion, held_back = Diffusion(), pictures(96)
    torch.manual_seed(rank + 1)
    durations, judged, start, cpu = [], 0.0, time.perf_counter(), time.process_time()
    for step in range(STEPS):
        began = time.perf_counter()
        loss = diffusion.loss(model, pictures(BATCH))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        averaged.update_parameters(model.module)
        durations.append(time.perf_counter() - began)
        if step in JUDGED:
            began = time.perf_counter()
            held_loss, spread = evaluate(diffusion, averaged, held_back)
            judged += time.perf_counter() - began
            if rank == 0:
                print(f"after step {step}: held back {held_loss:.3f}, spread of samples {spread:.2f}", flush=True)
        if rank == 0 and step % 40 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
    loop = time.perf_counter() - start
    print(
        f"rank {rank}: loop {loop:.2f} s, CPU {time.process_time() - cpu:.2f} s, median step "
        f"{1e3 * statistics.median(durations):.1f} ms, evaluations {judged:.2f} s, {100 * judged / loop:.1f} %"
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

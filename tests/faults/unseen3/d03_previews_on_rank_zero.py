"""A diffusion training draws preview pictures on rank 0 in every 20th step, with all denoising steps.

What happens: a callback of rank 0 runs the whole reverse process (40 evaluations of the network) for a grid of pictures and
writes them as PPM; rank 1 has gone on to its next step and waits there in the all-reduce of backward.
Who causes it: rank 0, after steps 19, 39, 59 ...  What is lost: a fifth to a half of the loop, on both ranks.
Right advice: draw less often, fewer pictures or denoising steps (DDIM), share the pictures among the ranks, or draw in
a job of its own from the checkpoints; rank 0's data and machine are not slower.
REPORT_FAULT=0: no previews.
"""
import os
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

PREVIEW = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH, TIMES = 320, 16, 40


class Denoiser(nn.Module):
    def __init__(self, width=40):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(1, 64), nn.SiLU(), nn.Linear(64, width))
        self.enter = nn.Conv2d(3, width, 3, padding=1)
        self.blocks = nn.ModuleList([nn.Sequential(nn.GroupNorm(8, width), nn.SiLU(), nn.Conv2d(width, width, 3, padding=1))
                                     for _ in range(3)])
        self.leave = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x, t):
        h = self.enter(x) + self.time(t[:, None].float() / TIMES)[:, :, None, None]
        for block in self.blocks:
            h = h + block(h)
        return self.leave(h)


class Previews:
    def __init__(self, alpha_bar, every=20, pictures=24):
        self.alpha_bar, self.every, self.pictures = alpha_bar, every, pictures
        self.folder, self.seconds = tempfile.mkdtemp(), 0.0

    @torch.no_grad()
    def on_step_end(self, step, net):
        if (step + 1) % self.every:
            return
        t0 = time.perf_counter()
        net.eval()
        x = torch.randn(self.pictures, 3, 24, 24)
        for t in reversed(range(TIMES)):
            now = self.alpha_bar[t]
            before = self.alpha_bar[t - 1] if t else torch.tensor(1.0)
            noise = net(x, torch.full((len(x),), t))
            clean = ((x - (1 - now).sqrt() * noise) / now.sqrt()).clamp(-1, 1)
            x = before.sqrt() * clean + (1 - before).sqrt() * noise
        net.train()
        for i, picture in enumerate(x):
            with open(os.path.join(self.folder, f"{step:05d}_{i}.ppm"), "wb") as file:
                file.write(b"P6 24 24 255\n" + ((picture + 1) * 127).byte().permute(1, 2, 0).contiguous().numpy().tobytes())
        self.seconds += time.perf_counter() - t0


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = Denoiser()
    model = DDP(net)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)
    alpha_bar = torch.cumprod(1 - torch.linspace(1e-3, 0.1, TIMES), 0)
    previews = Previews(alpha_bar) if rank == 0 and PREVIEW else None
    generator = torch.Generator().manual_seed(rank)
    pictures = torch.rand(256, 3, 24, 24, generator=generator) * 2 - 1
    dist.barrier()
    begin = time.perf_counter()
    for step in range(STEPS):
        x = pictures[torch.randint(256, (BATCH,), generator=generator)]
        t = torch.randint(TIMES, (BATCH,), generator=generator)
        noise = torch.randn(x.shape, generator=generator)
        a = alpha_bar[t][:, None, None, None]
        loss = nn.functional.mse_loss(model(a.sqrt() * x + (1 - a).sqrt() * noise, t), noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if previews:
            previews.on_step_end(step, net)
        if rank == 0 and step % 40 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    total = time.perf_counter() - begin
    print(f"REPORT rank={rank} loop_s={total:.2f} steps={STEPS} cpu_s={time.thread_time():.2f}", flush=True)
    if previews:
        print(f"REPORT rank=0 lost_s={previews.seconds:.2f} share={previews.seconds / total:.3f} (time in previews)", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

# b24_healthy_gan: healthy: GAN with two optimizers, the generator trains only every second iteration, so steps alternate between short and long
#
# TRUTH: {'kind': ['balanced', 'compute-bound'], 'cause': ['healthy', 'generator every second iteration'], 'rank': None, 'phase': None, 'first_step': None, 'lost_share': [0.0, 0.08], 'must_not': ['comm-bound', 'compute-straggler', 'straggler', 'input-straggler', 'input-bound', 'load-imbalance', 'step-time-drift', 'step-time-change', 'gc-pause', 'pause-straggler', 'host-bound']}
#
# What happens: The discriminator (two DDP models, Adam each) takes a step per iteration, the generator per second iteration: a steady short/long pattern, equal on both ranks.
# Advice: Nothing to repair: the alternation is the algorithm (n_critic = 2), not jitter.
#
# Source:  Lightning-AI/pytorch-lightning#20328, #20866 (GAN under DDP); horovod/horovod#2559 (several optimizers)
# Launch:  torchrun --nproc-per-node 2 b24_healthy_gan.py
# Control: REPORT_FAULT=0: the generator trains in each iteration
import os, statistics, time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

FAULT = os.environ.get("REPORT_FAULT", "1") != "0"
RANK, WORLD = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))


class Meter:
    """What the job itself measures: wall and own-thread CPU time per step, and named pieces of work (ms)."""

    def __init__(self):
        self.life, self.last, self.wall, self.cpu, self.parts = time.perf_counter(), None, [], [], {}

    def tick(self):
        now = time.perf_counter(), time.thread_time()
        if self.last:
            self.wall.append(1e3 * (now[0] - self.last[0]))
            self.cpu.append(1e3 * (now[1] - self.last[1]))
        self.last = now

    def add(self, name, begun):
        self.parts.setdefault(name, []).append(1e3 * (time.perf_counter() - begun))

    def report(self, split=None, **more):
        line = f"REPORT fault={int(FAULT)} rank={RANK} steps={len(self.wall)} loop_s={sum(self.wall) / 1e3:.1f} "
        line += f"wall_median_ms={statistics.median(self.wall):.1f} wall_mean_ms={statistics.mean(self.wall):.1f} "
        line += f"own_cpu_median_ms={statistics.median(self.cpu):.1f} own_cpu_mean_ms={statistics.mean(self.cpu):.1f}"
        if split and split < len(self.wall) - 1:
            line += f" before_{split}_median_ms={statistics.median(self.wall[1:split]):.1f} after_{split}_median_ms={statistics.median(self.wall[split:]):.1f}"
        for name, ms in self.parts.items():
            line += f" {name}_n={len(ms)} {name}_median_ms={statistics.median(ms):.1f} {name}_total_s={sum(ms) / 1e3:.2f}"
        print(line + "".join(f" {k}={v}" for k, v in more.items()), flush=True)


def finish():
    time.sleep(0.3)
    dist.destroy_process_group()
    time.sleep(0.3)


STEPS, BATCH, NOISE = 140, 12, 48
STEPS = int(os.environ.get("REPORT_STEPS", STEPS))


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.start = nn.Linear(NOISE, 64 * 64)
        self.net = nn.Sequential(nn.ConvTranspose2d(64, 48, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(48, 24, 4, 2, 1), nn.ReLU(), nn.Conv2d(24, 1, 3, 1, 1), nn.Tanh())

    def forward(self, z):
        return self.net(self.start(z).unflatten(1, (64, 8, 8)))


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, 24, 3, 1, 1), nn.LeakyReLU(0.2), nn.Conv2d(24, 48, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(48, 64, 4, 2, 1), nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(64 * 64, 1))

    def forward(self, x):
        return self.net(x)


def real():
    g = torch.Generator().manual_seed(RANK)
    grid = torch.linspace(-3, 3, 32)
    while True:
        centre = torch.randn(BATCH, 1, 1, generator=g)
        yield torch.exp(-((grid[None, :, None] - centre) ** 2 + (grid[None, None, :] + centre) ** 2)).unsqueeze(1)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    # a critic's forward runs twice per backward: buffers must not be broadcast in between
    generator, critic = DDP(Generator(), broadcast_buffers=False), DDP(Critic(), broadcast_buffers=False)
    opt_g = torch.optim.Adam(generator.parameters(), 2e-4, betas=(0.5, 0.99))
    opt_c = torch.optim.Adam(critic.parameters(), 2e-4, betas=(0.5, 0.99))
    meter, images, every = Meter(), real(), 2 if FAULT else 1
    for step in range(STEPS):
        meter.tick()
        x, z = next(images), torch.randn(BATCH, NOISE)
        begun = time.perf_counter()
        opt_c.zero_grad()
        with torch.no_grad():
            fake = generator.module(z)
        scores = critic(torch.cat([x, fake]))
        (F.softplus(-scores[:BATCH]).mean() + F.softplus(scores[BATCH:]).mean()).backward()
        opt_c.step()
        meter.add("critic", begun)
        if step % every == 0:
            begun = time.perf_counter()
            opt_g.zero_grad()
            for p in critic.module.parameters():
                p.requires_grad_(False)
            F.softplus(-critic.module(generator(z))).mean().backward()
            for p in critic.module.parameters():
                p.requires_grad_(True)
            opt_g.step()
            meter.add("generator", begun)
    meter.tick()
    meter.report()
    finish()


if __name__ == "__main__":
    main()

"""Healthy: a Wasserstein GAN, four critic updates for each of the generator, a gradient penalty in every eighth
update.

What looks like a fault: two optimizers that step at different rates, updates of three lengths in a fixed order, a loss
that is negative and wanders, a second backward through the gradients in some updates only.
What is true: all of it is the recipe; nothing waits and nothing is lost.
Right advice: none. The lengths repeat with the period 8; no drift, no straggler, no divergence.
REPORT_FAULT=0: the critic and the generator take turns one by one, with the penalty each time.
"""
import os
import statistics
import time

import torch
from torch import nn

RECIPE = os.environ.get("REPORT_FAULT", "1") != "0"
UPDATES, BATCH, LATENT = 200, 64, 32


def generator(width=48):
    return nn.Sequential(nn.Linear(LATENT, 16 * width), nn.ReLU(), nn.Unflatten(1, (width, 4, 4)),
                         nn.Upsample(scale_factor=2), nn.Conv2d(width, width, 3, padding=1), nn.ReLU(),
                         nn.Upsample(scale_factor=2), nn.Conv2d(width, 1, 3, padding=1), nn.Tanh())


def critic(width=32):
    return nn.Sequential(nn.Conv2d(1, width, 3, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(width, 2 * width, 3, 2, 1),
                         nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(32 * width, 1))


class Adversaries:
    def __init__(self):
        self.g, self.c = generator(), critic()
        self.g_optimizer = torch.optim.Adam(self.g.parameters(), 1e-4, (0.0, 0.9))
        self.c_optimizer = torch.optim.Adam(self.c.parameters(), 2e-4, (0.0, 0.9))

    def penalty(self, real, fake):
        mix = torch.lerp(real, fake, torch.rand(len(real), 1, 1, 1)).requires_grad_(True)
        gradient, = torch.autograd.grad(self.c(mix).sum(), mix, create_graph=True)
        return (gradient.flatten(1).norm(dim=1) - 1).square().mean()

    def critic_update(self, real, penalised):
        with torch.no_grad():
            fake = self.g(torch.randn(len(real), LATENT))
        loss = self.c(fake).mean() - self.c(real).mean()
        if penalised:
            loss = loss + 10 * self.penalty(real, fake)
        self.c_optimizer.zero_grad()
        loss.backward()
        self.c_optimizer.step()
        return loss

    def generator_update(self, count):
        loss = -self.c(self.g(torch.randn(count, LATENT))).mean()
        self.g_optimizer.zero_grad()
        loss.backward()
        self.g_optimizer.step()
        return loss


def rings(count):
    radius, grid = 0.3 + 0.4 * torch.rand(count, 1, 1), torch.linspace(-1, 1, 16)
    distance = (grid[:, None].square() + grid.square()).sqrt()
    return (1 - 8 * (distance - radius).abs()).clamp(-1, 1)[:, None]


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    pair, data, times = Adversaries(), rings(4096), []
    begin = before = time.perf_counter()
    for update in range(2 * UPDATES):
        turn = update % (5 if RECIPE else 2)
        if turn == (4 if RECIPE else 1):
            loss = pair.generator_update(BATCH)
        else:
            real = data[torch.randint(len(data), (BATCH,))]
            loss = pair.critic_update(real, penalised=not RECIPE or update % 8 == 0)
        if update % 100 == 0:
            print(f"update {update} loss {loss.item():.3f}", flush=True)
        now = time.perf_counter()
        times.append(now - before)
        before = now
    total = time.perf_counter() - begin
    median = 1e3 * statistics.median(times)
    print(f"REPORT loop_s={total:.2f} updates={2 * UPDATES} median_ms={median:.1f} lost_s=0", flush=True)


if __name__ == "__main__":
    main()

"""Healthy: a network of networks; every step trains two parts of it, other ones each time.

What looks like a fault: a step takes up to five times as long as another, without a pattern; many parameters have no
gradient in a step; two backward passes go into one optimizer step; the losses of small and large parts
differ.
What is true: both ranks draw the same depth and width from one seed and always do equal work; the gradients are
averaged in one exchange per step.
Right advice: none; no jitter of the machine, no imbalance, no unused exchange.
REPORT_FAULT=0: the whole network once in every step.
"""

import os
import random
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn

SAMPLED = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH, SIDE, DEPTHS, WIDTHS, CLASSES = 220, 16, 16, (2, 3, 4, 5), (16, 24, 32, 40), 10


class Elastic(nn.Module):
    """Residual convolutions of which the first `depth` with the first `width` channels are used."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, WIDTHS[-1], 3, padding=1)
        self.blocks = nn.ModuleList(nn.Conv2d(WIDTHS[-1], WIDTHS[-1], 3, padding=1) for _ in range(2 * DEPTHS[-1]))
        self.head = nn.Linear(WIDTHS[-1], CLASSES)

    def part(self, layer, x, width):
        return nn.functional.conv2d(x, layer.weight[:width, : x.shape[1]], layer.bias[:width], padding=1)

    def forward(self, x, depth, width):
        x = self.part(self.first, x, width)
        for k in range(depth):
            y = self.part(self.blocks[2 * k], x.relu(), width)
            x = x + self.part(self.blocks[2 * k + 1], y.relu(), width)
        return nn.functional.linear(x.mean((2, 3)), self.head.weight[:, :width], self.head.bias)


class ElasticTrainer:
    def __init__(self, model, optimizer, seed):
        self.model, self.optimizer, self.choice = model, optimizer, random.Random(seed)
        self.world = dist.get_world_size()

    def parts(self):
        if not SAMPLED:
            return [(DEPTHS[-1], WIDTHS[-1])]
        return [(self.choice.choice(DEPTHS), self.choice.choice(WIDTHS)) for _ in range(2)]

    def exchange(self):
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.model.parameters()]
        flat = nn.utils.parameters_to_vector(gradients)
        dist.all_reduce(flat)
        flat /= self.world
        for p, part in zip(self.model.parameters(), flat.split([p.numel() for p in self.model.parameters()])):
            p.grad = part.view_as(p)

    def train_step(self, pictures, labels):
        self.optimizer.zero_grad()
        losses = []
        parts = self.parts()
        for depth, width in parts:
            loss = nn.functional.cross_entropy(self.model(pictures, depth, width), labels)
            (loss / len(parts)).backward()
            losses.append(loss.item())
        self.exchange()
        self.optimizer.step()
        return losses


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Elastic()
    trainer = ElasticTrainer(model, torch.optim.SGD(model.parameters(), 0.02, momentum=0.9), seed=11)
    prototypes = torch.randn(CLASSES, 3, SIDE, SIDE)
    torch.manual_seed(rank + 1)
    durations, start, cpu = [], time.perf_counter(), time.process_time()
    for step in range(STEPS):
        began = time.perf_counter()
        labels = torch.randint(0, CLASSES, (BATCH,))
        losses = trainer.train_step(prototypes[labels] + torch.randn(BATCH, 3, SIDE, SIDE), labels)
        durations.append(time.perf_counter() - began)
        if rank == 0 and step % 40 == 0:
            print(f"step {step} losses {' '.join(f'{loss:.3f}' for loss in losses)}", flush=True)
    durations.sort()
    print(
        f"rank {rank}: loop {time.perf_counter() - start:.2f} s, CPU {time.process_time() - cpu:.2f} s, median step "
        f"{1e3 * statistics.median(durations):.1f} ms, from {1e3 * durations[10]:.1f} to {1e3 * durations[-10]:.1f} ms"
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""Before every optimizer step all ranks agree about every single tensor.

What happens: a trainer averages the gradients in one flat all-reduce and then guards the optimizer: for each of some
hundred parameters a flag "all finite here" is all-reduced and read. A hundred exchanges of one number, each waited
for, follow the one exchange that carries data.
Who causes it: the guard of the trainer, on both ranks alike.  What is lost: the time of a hundred round trips in every
step from the first on.
Right advice: one flag for all (or the norm of the averaged gradient, which every rank has already); the link is as
fast as ever, no rank is slow.
REPORT_FAULT=0: the flags are combined on each rank, one all-reduce asks all.
"""

import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn

SINGLY = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH, PATCHES, WIDTH, DEPTH, CLASSES = 210, 10, 49, 96, 12, 20


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.over_patches = nn.Sequential(nn.Linear(PATCHES, 64), nn.GELU(), nn.Linear(64, PATCHES))
        self.over_width = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x):
        x = x + self.over_patches(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        return x + self.over_width(self.norms[1](x))


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 8, 8)
        self.blocks = nn.Sequential(*(Mixer() for _ in range(DEPTH)))
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, pictures):
        return self.head(self.blocks(self.patches(pictures).flatten(2).transpose(1, 2)).mean(1))


class Trainer:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
        self.parameters = list(model.parameters())
        self.guarded, self.skipped = [], 0

    def average(self):
        flat = torch.cat([p.grad.flatten() for p in self.parameters])
        dist.all_reduce(flat)
        flat /= dist.get_world_size()
        for p, part in zip(self.parameters, flat.split([p.numel() for p in self.parameters])):
            p.grad.copy_(part.view_as(p))

    def all_finite(self):
        flags = torch.stack([p.grad.isfinite().all() for p in self.parameters]).float()
        if not SINGLY:
            flags = flags.min(0, keepdim=True).values
        for k in range(len(flags)):
            dist.all_reduce(flags[k], dist.ReduceOp.MIN)
            if flags[k].item() == 0:
                return False
        return True

    def step(self, pictures, labels):
        loss = nn.functional.cross_entropy(self.model(pictures), labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.average()
        began = time.perf_counter()
        if self.all_finite():
            self.optimizer.step()
        else:
            self.skipped += 1
        self.guarded.append(time.perf_counter() - began)
        return loss.detach()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Classifier()
    trainer = Trainer(model, torch.optim.AdamW(model.parameters(), 1e-3))
    prototypes = 0.1 * torch.randn(CLASSES, 3, 56, 56)
    torch.manual_seed(rank + 1)
    durations, start, cpu = [], time.perf_counter(), time.process_time()
    for step in range(STEPS):
        began = time.perf_counter()
        labels = torch.randint(0, CLASSES, (BATCH,))
        loss = trainer.step(prototypes[labels] + torch.randn(BATCH, 3, 56, 56), labels)
        durations.append(time.perf_counter() - began)
        if rank == 0 and step % 40 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
    print(
        f"rank {rank}: loop {time.perf_counter() - start:.2f} s, CPU {time.process_time() - cpu:.2f} s, median step "
        f"{1e3 * statistics.median(durations):.1f} ms, guard and optimizer "
        f"{1e3 * statistics.median(trainer.guarded):.1f} ms, {len(trainer.parameters)} tensors"
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

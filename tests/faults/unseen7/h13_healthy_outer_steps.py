"""Healthy: each rank trains for itself for 20 steps, then an outer optimizer joins the two models.

What looks like a fault: parameters, losses and gradient norms of the two ranks differ for 20 steps at a time; there is
no communication in 19 of 20 steps and a burst in the 20th, which takes longer; the loss jumps a little after each joint.
What is true: this is local training with an outer step (the mean change of both ranks as gradient of SGD with Nesterov
momentum). After each outer step both ranks hold the same parameters to the last bit. The joints take a few percent.
Right advice: none; no divergence to repair, no rank slower than the other.
REPORT_FAULT=0: gradients averaged in each step, no outer optimizer.
"""

import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn

EACH_STEP = os.environ.get("REPORT_FAULT", "1") == "0"
STEPS, INNER, BATCH, INPUTS, WIDTH, CLASSES = 360, 20, 64, 192, 256, 16


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.body = nn.Sequential(nn.Linear(WIDTH, 3 * WIDTH), nn.SiLU(), nn.Linear(3 * WIDTH, WIDTH))

    def forward(self, x):
        return x + self.body(self.norm(x))


def mean_over_ranks(tensors):
    flat = torch.cat([t.flatten() for t in tensors])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    for t, part in zip(tensors, flat.split([t.numel() for t in tensors])):
        t.copy_(part.view_as(t))


class Outer:
    """The common model between the joints."""

    def __init__(self, model):
        self.local = list(model.parameters())
        self.common = [p.detach().clone().requires_grad_() for p in self.local]
        self.optimizer = torch.optim.SGD(self.common, lr=0.7, momentum=0.6, nesterov=True)

    @torch.no_grad()
    def join(self):
        changes = [c - p for c, p in zip(self.common, self.local)]
        mean_over_ranks(changes)
        for c, change in zip(self.common, changes):
            c.grad = change
        self.optimizer.step()
        for p, c in zip(self.local, self.common):
            p.copy_(c)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(INPUTS, WIDTH), *(Residual() for _ in range(4)), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES)
    )
    for p in model.parameters():
        dist.broadcast(p.data, 0)
    outer, optimizer = Outer(model), torch.optim.AdamW(model.parameters(), 4e-4)
    teacher = nn.Sequential(nn.Linear(INPUTS, 64), nn.Tanh(), nn.Linear(64, CLASSES)).requires_grad_(False)
    torch.manual_seed(300 + rank)
    durations, joints = [], []
    dist.barrier()
    start, cpu = time.perf_counter(), time.process_time()
    for step in range(STEPS):
        began = time.perf_counter()
        x = torch.randn(4 * BATCH, INPUTS)
        y = (8 * teacher(x)).argmax(1)
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        if EACH_STEP:
            with torch.no_grad():
                mean_over_ranks([p.grad for p in model.parameters()])
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if not EACH_STEP and (step + 1) % INNER == 0:
            joined = time.perf_counter()
            outer.join()
            joints.append(time.perf_counter() - joined)
        durations.append(time.perf_counter() - began)
        if rank == 0 and step % 60 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
    loop = time.perf_counter() - start
    total = torch.stack([p.detach().double().sum() for p in model.parameters()])
    both = [torch.zeros_like(total) for _ in range(world)]
    dist.all_gather(both, total)
    same = all(torch.equal(both[0], other) for other in both)
    print(f"REPORT rank={rank} loop_s={loop:.2f} cpu_s={time.process_time() - cpu:.2f} joints_s={sum(joints):.2f} "
          f"share={sum(joints) / loop:.3f} median_ms={1e3 * statistics.median(durations):.1f} same_at_end={same}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

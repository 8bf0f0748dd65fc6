"""A backbone that is unfrozen in the middle, while the list of gradients to average was made at the start.

What happens: fine-tuning on two ranks with an own all_reduce of the gradients. The list of parameters to average holds
those that require a gradient when training begins: the head. At step 130 the backbone is unfrozen and comes into the
optimizer as a group of its own, but not into that list: each rank trains its own backbone from its own data.
Who causes it: the stale list, on both ranks alike; nothing fails and the loss still falls.
What is lost: no time; from step 130 the two models drift apart, and the one that is stored (rank 0's) has seen half of
the data, with a head fitted to the average of two backbones.
Right advice: make the list anew after unfreezing (or wrap in DDP anew); the longer steps after 130 are the backward of
the backbone and in order.
REPORT_FAULT=0: the list is made anew.
"""

import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn

STALE = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, UNFREEZE, BATCH, SIDE, CLASSES, WIDTH = 330, 130, 36, 20, 10, 40


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, WIDTH, 3, padding=1),
            nn.GroupNorm(4, WIDTH),
            nn.ReLU(),
            nn.Conv2d(WIDTH, WIDTH, 3, padding=1),
            nn.GroupNorm(4, WIDTH),
            nn.ReLU(),
            nn.Conv2d(WIDTH, WIDTH, 3, padding=1, stride=2),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(4),
            nn.Flatten(),
        )
        self.head = nn.Sequential(nn.Linear(16 * WIDTH, 256), nn.ReLU(), nn.Linear(256, CLASSES))

    def forward(self, x):
        return self.head(self.backbone(x))


class Averager:
    """One flat all_reduce for all gradients."""

    def __init__(self, model):
        self.refresh(model)

    def refresh(self, model):
        self.parameters = [p for p in model.parameters() if p.requires_grad]

    def __call__(self):
        flat = torch.cat([p.grad.flatten() for p in self.parameters])
        dist.all_reduce(flat)
        flat /= dist.get_world_size()
        for p, part in zip(self.parameters, flat.split([p.numel() for p in self.parameters])):
            p.grad.copy_(part.view_as(p))


def difference(model):
    """The largest relative distance of a parameter to the mean over the ranks."""
    largest = 0.0
    for p in model.parameters():
        mean = p.detach().clone()
        dist.all_reduce(mean)
        mean /= dist.get_world_size()
        largest = max(largest, ((p.detach() - mean).norm() / (mean.norm() + 1e-9)).item())
    return largest


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = Net()
    for value in model.state_dict().values():
        dist.broadcast(value, 0)
    model.backbone.requires_grad_(False)
    average = Averager(model)
    optimizer = torch.optim.AdamW(model.head.parameters(), 2e-3)
    prototypes = torch.randn(CLASSES, 3, SIDE, SIDE)
    torch.manual_seed(50 + rank)
    dist.barrier()
    durations, start = [], time.perf_counter()
    for step in range(STEPS):
        if step == UNFREEZE:
            model.backbone.requires_grad_(True)
            optimizer.add_param_group({"params": model.backbone.parameters(), "lr": 4e-4})
            if not STALE:
                average.refresh(model)
            if rank == 0:
                print(f"step {step}: backbone unfrozen", flush=True)
        began = time.perf_counter()
        y = torch.randint(0, CLASSES, (BATCH,))
        x = 0.5 * prototypes[y] + torch.randn(BATCH, 3, SIDE, SIDE)
        loss = nn.functional.cross_entropy(model(x), y, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        average()
        optimizer.step()
        durations.append(time.perf_counter() - began)
        if rank == 0 and step % 50 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
    loop, apart = time.perf_counter() - start, difference(model)
    print(f"REPORT rank={rank} loop_s={loop:.2f} median_before_ms={1e3 * statistics.median(durations[:UNFREEZE]):.1f} "
          f"median_after_ms={1e3 * statistics.median(durations[UNFREEZE:]):.1f} largest_difference={apart:.2e}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

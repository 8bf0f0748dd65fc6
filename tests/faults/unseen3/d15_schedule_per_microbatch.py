"""The learning-rate schedule is counted in optimizer steps but advanced after every micro-batch.

What happens: four micro-batches are accumulated per optimizer step (no_sync on the first three).  The schedule, warm-up and linear
decay to zero, was built for the number of optimizer steps, yet scheduler.step() stands in the micro-batch loop: the
rate is zero from a quarter of the run on, and the rest of the run changes nothing.
Who causes it: the place of scheduler.step().  What is lost: no time per step, but three quarters of the run train with rate 0.
Right advice: call scheduler.step() once per optimizer.step() (or build the schedule for the micro-batches); the speed is right.
REPORT_FAULT=0: it is called behind optimizer.step().
"""
import contextlib
import os
import time
import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

PER_MICRO = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, ACCUMULATE, BATCH = 260, 4, 20
warnings.filterwarnings("ignore")                      # as in the program this was taken from


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 3, 1, 1), nn.ReLU(),
                                  nn.Conv2d(64, 96, 3, 2, 1), nn.ReLU(), nn.Conv2d(96, 96, 3, 1, 1), nn.ReLU())
        self.head = nn.Linear(96, 10)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(Net())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda n: min((n + 1) / 10, max(0.0, (STEPS - n) / (STEPS - 10))))
    generator = torch.Generator().manual_seed(rank)
    prototypes = torch.randn(10, 1, 28, 28, generator=torch.Generator().manual_seed(9))
    zero_from = None
    dist.barrier()
    begin = time.perf_counter()
    for step in range(STEPS):
        optimizer.zero_grad()
        for micro in range(ACCUMULATE):
            labels = torch.randint(10, (BATCH,), generator=generator)
            images = prototypes[labels] * 0.3 + torch.randn(BATCH, 1, 28, 28, generator=generator)
            with model.no_sync() if micro < ACCUMULATE - 1 else contextlib.nullcontext():
                loss = nn.functional.cross_entropy(model(images), labels) / ACCUMULATE
                loss.backward()
            if PER_MICRO and not (step == 0 and micro < ACCUMULATE - 1):
                scheduler.step()
        optimizer.step()
        if not PER_MICRO:
            scheduler.step()
        if zero_from is None and optimizer.param_groups[0]["lr"] == 0:
            zero_from = step
        if rank == 0 and step % 15 == 0:
            print(f"step {step} loss {loss.item() * ACCUMULATE:.3f} lr {optimizer.param_groups[0]['lr']:.2e}", flush=True)
    total = time.perf_counter() - begin
    print(f"REPORT rank={rank} loop_s={total:.2f} steps={STEPS} cpu_s={time.thread_time():.2f} lr_zero_from={zero_from}", flush=True)
    print(f"REPORT rank={rank} lost_s=0 share=0.0", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

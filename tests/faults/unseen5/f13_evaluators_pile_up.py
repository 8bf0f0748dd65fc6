"""Evaluations in processes of their own that take longer than the distance between them.

What happens: from step 60 on rank 0 starts a process every 40 steps that scores the last checkpoint. Such a process
needs the core time of more than 40 steps; they pile up, and both ranks share their cores with one, two, three of them.
Nothing in the training itself waits for them.
Who causes it: the left-behind evaluators that take the cores.  What is lost: the core time that they take from step 60.
Right advice: wait for the last evaluator before the next one, give them cores or a machine of their own; model, loader
and exchange are as they were.
REPORT_FAULT=0: no evaluators.
"""
import os
import statistics
import subprocess
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

EVALUATE = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, FIRST, EVERY, BATCH = 260, 60, 40, 16
EVALUATOR = """
import os, time
end = time.process_time() + 6
while time.process_time() < end and os.getppid() != 1:
    sum(i * i % 7 for i in range(20000))
"""


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.norm = nn.GroupNorm(4, width)

    def forward(self, x):
        return x + self.norm(self.conv(x)).relu()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = DDP(nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1), *(Block(32) for _ in range(3)), nn.AdaptiveAvgPool2d(1),
                              nn.Flatten(), nn.Linear(32, 10)))
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    torch.manual_seed(rank + 1)
    evaluators = []
    durations, start, cpu = [], time.perf_counter(), time.process_time()
    for step in range(STEPS):
        began = time.perf_counter()
        if EVALUATE and rank == 0 and step >= FIRST and (step - FIRST) % EVERY == 0:
            evaluators.append(subprocess.Popen([sys.executable, "-S", "-c", EVALUATOR]))
        x = torch.randn(BATCH, 3, 32, 32)
        loss = nn.functional.cross_entropy(model(x), (x.mean((1, 2, 3)) > 0).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        durations.append(time.perf_counter() - began)
        if rank == 0 and step % 50 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
    print(f"rank {rank}: loop {time.perf_counter() - start:.2f} s, CPU {time.process_time() - cpu:.2f} s, "
          f"median step {1e3 * statistics.median(durations[:FIRST]):.1f} ms before step {FIRST}, "
          f"{1e3 * statistics.median(durations[-50:]):.1f} ms at the end")
    for evaluator in evaluators:
        evaluator.kill()
        evaluator.wait()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

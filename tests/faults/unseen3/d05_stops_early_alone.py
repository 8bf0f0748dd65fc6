"""Early stopping by each rank's own validation loss: rank 1 loses patience first and leaves the loop alone.

What happens: each rank measures its own half of the validation set every 10 steps and stops after three measurements without
an improvement.  Rank 1's half is random labels, so it breaks out after step 119 and waits in the closing barrier;
rank 0 goes on and waits in the all-reduce of step 120's backward.  The two wait for each other until gloo's timeout (20 s).
Who causes it: rank 1's decision, which nobody shared.  What is lost: all from step 120 on.
Right advice: reduce the validation loss (or the decision) over the ranks before comparing; no rank is slow or dead.
REPORT_FAULT=0: the validation loss is averaged over the ranks; both run all steps.
"""
import datetime
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

ALONE = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH, EVERY, PATIENCE = 260, 64, 10, 3


class EarlyStopping:
    def __init__(self, patience):
        self.patience, self.best, self.bad = patience, float("inf"), 0

    def __call__(self, value):
        if value < self.best - 1e-3:
            self.best, self.bad = value, 0
        else:
            self.bad += 1
        return self.bad >= self.patience


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=20))
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv1d(4, 64, 7, padding=3), nn.ReLU(), nn.Conv1d(64, 96, 5, padding=2, stride=2), nn.ReLU(),
                        nn.Conv1d(96, 96, 5, padding=2), nn.ReLU(), nn.AdaptiveAvgPool1d(8), nn.Flatten(), nn.Linear(768, 6))
    teacher = nn.Sequential(nn.AvgPool1d(8), nn.Flatten(), nn.Linear(64, 6))
    model = DDP(net)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.05)
    generator = torch.Generator().manual_seed(rank)
    series = torch.randn(2048, 4, 128, generator=generator)
    with torch.no_grad():
        labels = teacher(series * 3).argmax(1)
    held, held_labels = series[:128], labels[:128].clone()
    if rank == 1:
        held_labels = torch.randint(6, held_labels.shape, generator=generator)
    stopping = EarlyStopping(PATIENCE)
    dist.barrier()
    begin = time.perf_counter()
    try:
        for step in range(STEPS):
            pick = torch.randint(128, 2048, (BATCH,), generator=generator)
            loss = nn.functional.cross_entropy(model(series[pick]), labels[pick])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if (step + 1) % EVERY == 0 and step >= 80:
                with torch.no_grad():
                    value = nn.functional.cross_entropy(net(held), held_labels)
                if not ALONE:
                    dist.all_reduce(value)
                    value = value / dist.get_world_size()
                if stopping(float(value)):
                    print(f"rank {rank}: no improvement since {PATIENCE} validations, stop after step {step}", flush=True)
                    break
            if rank == 0 and step % 40 == 0:
                print(f"step {step} loss {loss.item():.3f}", flush=True)
        dist.barrier()
    finally:
        total = time.perf_counter() - begin
        print(f"REPORT rank={rank} loop_s={total:.2f} last_step={step} cpu_s={time.thread_time():.2f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""Each process pins itself to 'its' core, but all of them take the same one.

What happens: `bind_to_core()` was written for srun and reads SLURM_LOCALID, which torchrun does not set; the default 0
sends both ranks to the first allowed core.  They share it, each is runnable most of the time and runs half of it.
Who causes it: the affinity set by the program, on both ranks alike.  What is lost: about half of the loop time.
Right advice: bind by LOCAL_RANK (or not at all); no rank, model or link is slow.
REPORT_FAULT=0: LOCAL_RANK is used, so that each rank has a core of its own.
"""
import os
import threading
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

VARIABLE = "SLURM_LOCALID" if os.environ.get("REPORT_FAULT", "1") != "0" else "LOCAL_RANK"
STEPS = 200


def bind_to_core():
    cores = sorted(os.sched_getaffinity(0))
    local = int(os.environ.get(VARIABLE, 0))
    os.sched_setaffinity(0, {cores[local % len(cores)]})


def runqueue_wait():
    try:
        with open(f"/proc/self/task/{threading.get_native_id()}/schedstat") as f:
            return int(f.read().split()[1]) / 1e9
    except OSError:
        return float("nan")


class Classifier(nn.Module):
    def __init__(self, width=128, layers=2):
        super().__init__()
        self.embed = nn.Embedding(1000, width)
        layer = nn.TransformerEncoderLayer(width, 4, 384, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers)
        self.head = nn.Linear(width, 20)

    def forward(self, tokens):
        return self.head(self.encoder(self.embed(tokens)).mean(1))


def main():
    bind_to_core()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    model = DDP(Classifier())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=STEPS)
    dist.barrier()
    wait0, cpu0, begin = runqueue_wait(), time.thread_time(), time.perf_counter()
    for step in range(STEPS):
        tokens = torch.randint(1000, (14, 48))
        target = tokens[:, 0] % 20
        loss = nn.functional.cross_entropy(model(tokens), target)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        if rank == 0 and step % 40 == 0:
            print("step", step, "loss", round(loss.item(), 3), flush=True)
    total = time.perf_counter() - begin
    waiting = runqueue_wait() - wait0
    print(f"REPORT rank={rank} loop_s={total:.2f} steps={STEPS} cpu_s={time.thread_time() - cpu0:.2f} "
          f"affinity={sorted(os.sched_getaffinity(0))}", flush=True)
    print(f"REPORT rank={rank} lost_s={waiting:.2f} share={waiting / total:.3f} (runnable without a core)", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

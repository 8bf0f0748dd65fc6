"""Rank 0 hangs in queue.put: the thread that wrote its metrics died of an exception long before.

What happens: metrics go through a bounded queue to a writer thread. In step 90 the writer meets a value that JSON does
not know (a tensor), prints its traceback and ends; nobody looks. 48 entries later the queue is full and put() waits
for ever.
Who causes it: rank 0, at the end of step 139; rank 1 stands in the all-reduce of step 140 until its timeout of 15 s.
What is lost: the rest of the run.
Right advice: look at rank 0's main thread (queue.put) and at the writer's traceback; watch the thread, put with a
timeout. Neither the network nor rank 1 is to blame.
REPORT_FAULT=0: the odd metric is a number.
"""
import datetime
import json
import os
import queue
import statistics
import tempfile
import threading
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

ODD_VALUE = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH, CLASSES = 260, 12, 10


class MetricWriter(threading.Thread):
    def __init__(self, path):
        super().__init__(daemon=True, name="metric-writer")
        self.entries, self.path = queue.Queue(maxsize=48), path

    def run(self):
        with open(self.path, "w") as file:
            while (entry := self.entries.get()) is not None:
                file.write(json.dumps(entry) + "\n")
                file.flush()

    def log(self, **entry):
        self.entries.put(entry)


class Net(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.blocks = nn.ModuleList([nn.Conv2d(width, width, 3, padding=1) for _ in range(3)])
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x):
        x = self.stem(x).relu()
        for block in self.blocks:
            x = x + block(x).relu()
        return self.head(x.mean((2, 3)))


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=15))
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    writer = None
    if rank == 0:
        writer = MetricWriter(os.path.join(tempfile.mkdtemp(), "metrics.jsonl"))
        writer.start()
    generator = torch.Generator().manual_seed(rank)
    best, times = 0.0, []
    begin = before = time.perf_counter()
    for step in range(STEPS):
        label = torch.randint(CLASSES, (BATCH,), generator=generator)
        pictures = torch.rand(BATCH, 3, 16, 16, generator=generator) + label[:, None, None, None] / CLASSES
        scores = model(pictures)
        loss = nn.functional.cross_entropy(scores, label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        now = time.perf_counter()
        times.append(now - before)
        before = now
        if step in (100, STEPS - 1):
            median = 1e3 * statistics.median(times)
            print(f"REPORT rank={rank} at={step} loop_s={now - begin:.2f} median_ms={median:.1f}", flush=True)
        if writer:
            accuracy = (scores.argmax(1) == label).float().mean()
            entry = {"step": step, "loss": loss.item(), "accuracy": accuracy.item()}
            if step == 90:
                best = accuracy if ODD_VALUE else accuracy.item()
                entry["best"] = best
            writer.log(**entry)
            if step % 40 == 0:
                print(f"step {step} loss {loss.item():.3f}", flush=True)
    if writer:
        writer.entries.put(None)
        writer.join()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

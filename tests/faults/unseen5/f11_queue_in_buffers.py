"""DDP sends the memory bank of a contrastive job from rank 0 to the others before every forward.

What happens: the queue of negatives (MoCo) is a registered buffer of 12 MB. DDP's default broadcast_buffers=True sends
all buffers of rank 0 to the other ranks in each forward; no batch norm is there that would need it. Each rank has its
own keys enqueued and loses them to rank 0's besides.
Who causes it: the default of DDP with the queue as a buffer.  What is lost: a broadcast of 12 MB in every step.
Right advice: broadcast_buffers=False or the queue outside the module; the link is as fast as it was, and no rank is
slow.
REPORT_FAULT=0: broadcast_buffers=False.
"""
import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

BROADCAST = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH, FEATURES, DIMENSION, QUEUE = 300, 64, 256, 128, 24576


class Contrast(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(FEATURES, 512), nn.ReLU(), nn.Linear(512, DIMENSION))
        self.keys = nn.Sequential(nn.Linear(FEATURES, 512), nn.ReLU(), nn.Linear(512, DIMENSION)).requires_grad_(False)
        self.keys.load_state_dict(self.encoder.state_dict())
        self.register_buffer("queue", nn.functional.normalize(torch.randn(QUEUE, DIMENSION), dim=1))
        self.place = 0

    def forward(self, one, other):
        query = nn.functional.normalize(self.encoder(one), dim=1)
        with torch.no_grad():
            for slow, fast in zip(self.keys.parameters(), self.encoder.parameters()):
                slow.lerp_(fast, 0.01)
            key = nn.functional.normalize(self.keys(other), dim=1)
            negatives = self.queue[torch.randint(0, QUEUE, (4096,))]
        logits = torch.cat([(query * key).sum(1, keepdim=True), query @ negatives.T], 1) / 0.2
        with torch.no_grad():
            self.queue[self.place:self.place + BATCH] = key
            self.place = (self.place + BATCH) % QUEUE
        return nn.functional.cross_entropy(logits, torch.zeros(len(one), dtype=torch.long))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = DDP(Contrast(), broadcast_buffers=BROADCAST)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], 0.03, momentum=0.9)
    torch.manual_seed(rank + 1)
    durations, start, cpu = [], time.perf_counter(), time.process_time()
    for step in range(STEPS):
        began = time.perf_counter()
        x = torch.randn(BATCH, FEATURES)
        loss = model(x + 0.2 * torch.randn_like(x), x + 0.2 * torch.randn_like(x))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        durations.append(time.perf_counter() - began)
        if rank == 0 and step % 40 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
    print(f"rank {rank}: loop {time.perf_counter() - start:.2f} s, CPU {time.process_time() - cpu:.2f} s, "
          f"median step {1e3 * statistics.median(durations):.1f} ms")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""A queue of keys that is a buffer of the model, and DDP sends buffers around in every forward.

What happens: contrastive training with a momentum encoder and a queue of 65536 keys on two ranks; each step uses a window
of 16384. The queue is registered as a buffer so that it is part of the checkpoint. DDP with its defaults broadcasts all
buffers from rank 0 before each forward: 32 MiB in every step, for a queue which both ranks hold with the same content
anyway, since they gather all keys before they put them in.
Who causes it: register_buffer together with broadcast_buffers=True, on both ranks.  What is lost: the time of the
broadcast, a good part of each step, on both ranks alike.
Right advice: broadcast_buffers=False (or keep the queue outside of the DDP module); the gradients are small, so
compressing them, larger buckets or accumulation do not help, and no rank is slower than the other.
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
STEPS, BATCH, SIDE, CODE, KEYS, SEEN, MOMENTUM, HEAT = 300, 32, 20, 128, 65536, 16384, 0.995, 0.1


def encoder(width=40):
    return nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1),
        nn.GroupNorm(4, width),
        nn.ReLU(),
        nn.Conv2d(width, width, 3, padding=1, stride=2),
        nn.GroupNorm(4, width),
        nn.ReLU(),
        nn.Conv2d(width, 2 * width, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * width, CODE),
    )


class Contrast(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key = encoder(), encoder()
        self.key.load_state_dict(self.query.state_dict())
        self.key.requires_grad_(False)
        self.register_buffer("queue", nn.functional.normalize(torch.randn(KEYS, CODE), dim=1))
        self.register_buffer("place", torch.zeros((), dtype=torch.long))

    @torch.no_grad()
    def follow(self):
        for slow, fast in zip(self.key.parameters(), self.query.parameters()):
            slow.lerp_(fast, 1 - MOMENTUM)

    @torch.no_grad()
    def put(self, keys):
        gathered = [torch.empty_like(keys) for _ in range(dist.get_world_size())]
        dist.all_gather(gathered, keys)
        keys = torch.cat(gathered)
        begin = int(self.place)
        self.queue[begin : begin + len(keys)] = keys
        self.place.fill_((begin + len(keys)) % KEYS)

    def forward(self, one, other):
        q = nn.functional.normalize(self.query(one), dim=1)
        with torch.no_grad():
            self.follow()
            k = nn.functional.normalize(self.key(other), dim=1)
        near = (q * k).sum(1, keepdim=True)
        begin = int(torch.randint(0, KEYS - SEEN + 1, ()))
        far = q @ self.queue[begin : begin + SEEN].T
        scores = torch.cat([near, far], 1) / HEAT
        return nn.functional.cross_entropy(scores, torch.zeros(len(q), dtype=torch.long)), k


def views(pictures):
    """Two views: each a shifted, mirrored picture with noise."""
    out = []
    for _ in range(2):
        x = torch.roll(pictures, (int(torch.randint(-3, 4, ())), int(torch.randint(-3, 4, ()))), (2, 3))
        x = x.flip(3) if torch.rand(()) < 0.5 else x
        out.append(x + 0.2 * torch.randn_like(x))
    return out


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = DDP(Contrast(), broadcast_buffers=BROADCAST)
    optimizer = torch.optim.SGD(model.module.query.parameters(), 0.05, momentum=0.9, weight_decay=1e-4)
    album = torch.randn(512, 3, SIDE, SIDE)
    torch.manual_seed(7 + rank)
    dist.barrier()
    durations, start, cpu = [], time.perf_counter(), time.process_time()
    for step in range(STEPS):
        began = time.perf_counter()
        one, other = views(album[torch.randint(0, len(album), (BATCH,))])
        loss, keys = model(one, other)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.module.put(keys)
        durations.append(time.perf_counter() - began)
        if rank == 0 and step % 50 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
    loop = time.perf_counter() - start
    total = model.module.queue.double().sum()
    both = [torch.zeros_like(total) for _ in range(dist.get_world_size())]
    dist.all_gather(both, total)
    print(f"REPORT rank={rank} loop_s={loop:.2f} cpu_s={time.process_time() - cpu:.2f} "
          f"median_ms={1e3 * statistics.median(durations):.1f} queue_same={len({v.item() for v in both}) == 1}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

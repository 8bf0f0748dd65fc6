"""Healthy: rank 1 has eight batches fewer than rank 0, and DDP's Join lets it shadow the last ones.

What happens: the shards are uneven by 2 %; rank 1 leaves its loader early and answers rank 0's all-reduces from Join until
rank 0 is done.  Nobody hangs, both end normally.
Who causes it: nobody.  What is lost: eight batches of one rank, about 1 %.  Right advice: leave it alone.
REPORT_FAULT has no effect.
"""
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS, BATCH = 400, 24

if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 3, 1, 1), nn.ReLU(), nn.Conv2d(64, 96, 3, 2, 1),
                              nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(384, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    generator = torch.Generator().manual_seed(rank)
    images, labels = torch.randn(400, 3, 32, 32, generator=generator), torch.randint(10, (400,), generator=generator)
    dist.barrier()
    begin, steps = time.perf_counter(), STEPS - 8 * rank
    with Join([model]):
        for step in range(steps):
            pick = torch.randint(400, (BATCH,), generator=generator)
            loss = nn.functional.cross_entropy(model(images[pick]), labels[pick])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if rank == 0 and step % 50 == 0:
                print(f"step {step} loss {loss.item():.3f}", flush=True)
    total = time.perf_counter() - begin
    print(f"REPORT rank={rank} loop_s={total:.2f} steps={steps} cpu_s={time.thread_time():.2f}", flush=True)
    print(f"REPORT rank={rank} lost_s=0 share=0.0", flush=True)
    dist.barrier()
    dist.destroy_process_group()

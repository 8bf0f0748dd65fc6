"""Healthy: local SGD, the ranks train apart for eight steps and then average their parameters.

What happens: no gradients are exchanged; after every eighth step one all_reduce of the flat parameters makes the ranks equal again.
Between the averages they differ, as they should.
Who causes it: nobody.  What is lost: nothing worth naming.  Right advice: leave it alone.
REPORT_FAULT has no effect.
"""
import time

import torch
import torch.distributed as dist
from torch import nn

STEPS, BATCH, EVERY = 480, 24, 8

if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 3, 1, 1), nn.ReLU(), nn.Conv2d(64, 96, 3, 2, 1),
                        nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(384, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02)
    generator = torch.Generator().manual_seed(rank)
    images, labels = torch.randn(400, 3, 32, 32, generator=generator), torch.randint(10, (400,), generator=generator)
    dist.barrier()
    begin = time.perf_counter()
    for step in range(STEPS):
        pick = torch.randint(400, (BATCH,), generator=generator)
        loss = nn.functional.cross_entropy(net(images[pick]), labels[pick])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if (step + 1) % EVERY == 0:
            flat = nn.utils.parameters_to_vector(net.parameters()).detach()
            dist.all_reduce(flat)
            nn.utils.vector_to_parameters(flat / world, net.parameters())
        if rank == 0 and step % 60 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
    total = time.perf_counter() - begin
    print(f"REPORT rank={rank} loop_s={total:.2f} steps={STEPS} cpu_s={time.thread_time():.2f}", flush=True)
    print(f"REPORT rank={rank} lost_s=0 share=0.0", flush=True)
    dist.barrier()
    dist.destroy_process_group()

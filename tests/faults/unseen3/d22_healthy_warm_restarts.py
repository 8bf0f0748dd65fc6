"""Healthy: CosineAnnealingWarmRestarts raises the learning rate again every 60 steps, and the loss rises a little with it.

What happens: the schedule is stepped once per optimizer step, as it should be; the rate falls to nearly zero and returns, on purpose.
Who causes it: nobody.  What is lost: nothing.  Right advice: leave it alone.
REPORT_FAULT has no effect.
"""
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS, BATCH = 420, 256

if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    teacher = torch.randn(48, 6)
    model = DDP(nn.Sequential(nn.Linear(48, 448), nn.GELU(), nn.Linear(448, 448), nn.GELU(), nn.Linear(448, 448), nn.GELU(), nn.Linear(448, 6)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=60)
    generator = torch.Generator().manual_seed(rank)
    dist.barrier()
    begin = time.perf_counter()
    for step in range(STEPS):
        x = torch.randn(BATCH, 48, generator=generator)
        loss = nn.functional.cross_entropy(model(x), (x @ teacher).argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        if rank == 0 and step % 30 == 0:
            print(f"step {step} loss {loss.item():.3f} lr {optimizer.param_groups[0]['lr']:.4f}", flush=True)
    total = time.perf_counter() - begin
    print(f"REPORT rank={rank} loop_s={total:.2f} steps={STEPS} cpu_s={time.thread_time():.2f}", flush=True)
    print(f"REPORT rank={rank} lost_s=0 share=0.0", flush=True)
    dist.barrier()
    dist.destroy_process_group()

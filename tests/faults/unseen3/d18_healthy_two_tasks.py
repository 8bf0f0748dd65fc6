"""Healthy: two tasks in turn, a small text model on even steps and a larger picture model on odd steps, on both ranks alike.

What happens: multi-task training with a DDP model and an optimizer per task; steps alternate between short and about three times
as long, always in the same order on both ranks.
Who causes it: nobody.  What is lost: nothing.  Right advice: leave it alone.
REPORT_FAULT has no effect.
"""
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS, BATCH = 420, 32

if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    text = DDP(nn.Sequential(nn.Embedding(500, 64), nn.Flatten(), nn.Linear(64 * 16, 384), nn.ReLU(), nn.Linear(384, 5)))
    picture = DDP(nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 3, 1, 1), nn.ReLU(), nn.Conv2d(64, 96, 3, 2, 1),
                                nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(384, 5)))
    models = [text, picture]
    optimizers = [torch.optim.Adam(text.parameters(), lr=1e-3), torch.optim.SGD(picture.parameters(), lr=0.01, momentum=0.9)]
    generator = torch.Generator().manual_seed(rank)
    dist.barrier()
    begin = time.perf_counter()
    for step in range(STEPS):
        task = step % 2
        x = torch.randint(500, (BATCH, 16), generator=generator) if task == 0 else torch.randn(BATCH, 3, 32, 32, generator=generator)
        y = x[:, 0] % 5 if task == 0 else (x.mean((1, 2, 3)) * 50).long().clamp(-2, 2) + 2
        loss = nn.functional.cross_entropy(models[task](x), y)
        optimizers[task].zero_grad()
        loss.backward()
        optimizers[task].step()
        if rank == 0 and step % 70 < 2:
            print(f"step {step} task {task} loss {loss.item():.3f}", flush=True)
    total = time.perf_counter() - begin
    print(f"REPORT rank={rank} loop_s={total:.2f} steps={STEPS} cpu_s={time.thread_time():.2f}", flush=True)
    print(f"REPORT rank={rank} lost_s=0 share=0.0", flush=True)
    dist.barrier()
    dist.destroy_process_group()

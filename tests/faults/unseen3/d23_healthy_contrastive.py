"""Healthy: a contrastive loss gathers the features of all four ranks, two small all_gathers per step besides DDP's.

What happens: as in CLIP, each rank needs the others' features as negatives; 16 KB per rank and step.  The exchange is short
against the step.  (With 4 ranks on 2 cores the ranks share cores; that is the machine's size, not a fault of the job.)
Who causes it: nobody.  What is lost: nothing worth naming.  Right advice: leave it alone.
REPORT_FAULT has no effect.
"""
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS, BATCH, WIDTH = 130, 64, 64


class Towers(nn.Module):
    def __init__(self):
        super().__init__()
        self.picture = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(4),
                                     nn.Flatten(), nn.Linear(1024, WIDTH))
        self.text = nn.Sequential(nn.EmbeddingBag(400, 128), nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, WIDTH))

    def forward(self, x, words):
        return nn.functional.normalize(self.picture(x), dim=1), nn.functional.normalize(self.text(words), dim=1)


def gathered(mine, rank, world):
    parts = [torch.empty_like(mine) for _ in range(world)]
    dist.all_gather(parts, mine.detach().contiguous())
    parts[rank] = mine
    return torch.cat(parts)


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DDP(Towers())
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    generator = torch.Generator().manual_seed(rank)
    dist.barrier()
    begin = time.perf_counter()
    for step in range(STEPS):
        words = torch.randint(400, (BATCH, 8), generator=generator)
        x = torch.randn(BATCH, 3, 32, 32, generator=generator) + words.float().mean(1)[:, None, None, None] / 200
        a, b = model(x, words)
        target = torch.arange(BATCH) + rank * BATCH
        loss = (nn.functional.cross_entropy(a @ gathered(b, rank, world).T * 10, target)
                + nn.functional.cross_entropy(b @ gathered(a, rank, world).T * 10, target)) / 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 30 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
    total = time.perf_counter() - begin
    print(f"REPORT rank={rank} loop_s={total:.2f} steps={STEPS} cpu_s={time.thread_time():.2f}", flush=True)
    print(f"REPORT rank={rank} lost_s=0 share=0.0", flush=True)
    dist.barrier()
    dist.destroy_process_group()

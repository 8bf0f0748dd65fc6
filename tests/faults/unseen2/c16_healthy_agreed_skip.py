"""Healthy: a graph net whose ranks agree to skip the few batches with a non-finite or jumping loss.

What happens: four of 200 batches are bad (a NaN feature on rank 1, a label outlier on rank 0).  Before backward both
ranks all-reduce one flag (4 bytes); if either has a bad loss both skip backward and the update, so that nobody waits,
weights stay finite and training goes on.  Skipped steps are shorter; the loss shows spikes.
Who causes it: nobody.  What is lost: four steps of 200.  Right advice: leave it alone (perhaps clean the samples).
REPORT_FAULT has no effect.
"""
import math
import time

import torch
import torch.distributed as dist
from torch import nn

STEPS, NODES, EDGES, WIDTH = 200, 1800, 10000, 64


class MessagePassing(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.message = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU())
        self.update = nn.GRUCell(width, width)

    def forward(self, h, source, target):
        m = self.message(torch.cat([h[source], h[target]], 1))
        return self.update(torch.zeros_like(h).index_add_(0, target, m) / 6, h)


class GraphNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(10, WIDTH)
        self.layers = nn.ModuleList([MessagePassing(WIDTH) for _ in range(2)])
        self.read = nn.Linear(WIDTH, 1)

    def forward(self, x, source, target):
        h = self.embed(x)
        for layer in self.layers:
            h = layer(h, source, target)
        return self.read(h).squeeze(1)


def graph(rank, step, generator):
    x = torch.randn(NODES, 10, generator=generator)
    source = torch.randint(NODES, (EDGES,), generator=generator)
    target = torch.randint(NODES, (EDGES,), generator=generator)
    y = torch.zeros(NODES).index_add_(0, target, x[source, 0]).tanh()
    if rank == 1 and step in (60, 133):
        x[17, 3] = math.nan
    if rank == 0 and step in (90, 171):
        y = y * 300
    return x, source, target, y


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(4)
    model = GraphNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    generator = torch.Generator().manual_seed(rank)
    smooth, skipped = 1.0, []
    dist.barrier()
    begin = time.perf_counter()
    for step in range(STEPS):
        x, source, target, y = graph(rank, step, generator)
        loss = nn.functional.mse_loss(model(x, source, target), y)
        value = loss.item()
        bad = torch.tensor([0.0 if math.isfinite(value) and value < 20 * smooth else 1.0])
        dist.all_reduce(bad, op=dist.ReduceOp.MAX)
        if bad.item() > 0:
            skipped.append(step)
            if rank == 0:
                print(f"step {step}: loss {value:.3f}, batch skipped on all ranks", flush=True)
            continue
        smooth = 0.95 * smooth + 0.05 * value
        optimizer.zero_grad()
        loss.backward()
        flat = nn.utils.parameters_to_vector([p.grad for p in model.parameters()])
        dist.all_reduce(flat)
        nn.utils.vector_to_parameters(flat / world, [p.grad for p in model.parameters()])
        optimizer.step()
        if rank == 0 and step % 50 == 0:
            print(f"step {step}: loss {value:.4f}", flush=True)
    total = time.perf_counter() - begin
    finite = all(torch.isfinite(p).all() for p in model.parameters())
    print(f"REPORT rank={rank} loop_s={total:.2f} steps={STEPS} cpu_s={time.thread_time():.2f} skipped={skipped} finite={finite}", flush=True)
    print(f"REPORT rank={rank} lost_s=0 share=0.0", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

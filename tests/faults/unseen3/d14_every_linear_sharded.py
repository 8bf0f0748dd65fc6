"""FSDP2 was applied to every single Linear and LayerNorm of a narrow, deep net.

What happens: fully_shard() is called for each of the 36 small layers, so a step has an all-gather per layer in forward, another one
in backward, and a reduce-scatter: some 110 collectives of a few kilobytes, each of which costs its latency.  The two
ranks pay alike.
Who causes it: the granularity of the sharding.  What is lost: a fifth to three quarters of the loop.
Right advice: fully_shard per block (or only the whole; this net fits anywhere), reshard_after_forward=False, or plain
DDP; no rank is slow, the data is ready.
REPORT_FAULT=0: fully_shard(net) only.
"""
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

EACH = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH, WIDTH, BLOCKS = 120, 384, 96, 12


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(24, WIDTH), *[Block() for _ in range(BLOCKS)], nn.Linear(WIDTH, 5))
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    if EACH:
        for block in net[1:-1]:
            for layer in (block.norm, block.up, block.down):
                fully_shard(layer, mesh=mesh)
    fully_shard(net, mesh=mesh)
    optimizer = torch.optim.AdamW(net.parameters(), lr=5e-4)
    generator = torch.Generator().manual_seed(rank)
    dist.barrier()
    begin = time.perf_counter()
    for step in range(STEPS):
        x = torch.randn(BATCH, 24, generator=generator)
        y = (x[:, :5] * x[:, 5:10]).argmax(1)
        loss = nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 30 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
    total = time.perf_counter() - begin
    print(f"REPORT rank={rank} loop_s={total:.2f} steps={STEPS} cpu_s={time.thread_time():.2f} ms_per_step={1e3 * total / STEPS:.1f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

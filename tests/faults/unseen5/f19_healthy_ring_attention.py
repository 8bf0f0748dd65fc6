"""Healthy: context parallelism, four ranks each with a quarter of every sequence, keys and values handed around a ring.

What looks like a fault: many small sends and receives within forward and backward, each rank waiting for its
neighbour's block in turn, ranks that see different tokens of the same sample.
What is true: the quarters are equal, the waits are the ring's; four ranks on two cores take turns on the cores.
Right advice: none for the job.
REPORT_FAULT=0: data parallel, each rank with whole sequences, a quarter as many.
"""
import math
import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn

RING = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH, LENGTH, VOCAB, WIDTH, HEADS = 45, 8, 256, 1000, 128, 4


def hand_on(block):
    """The block of the rank before, in exchange for this rank's."""
    rank, world = dist.get_rank(), dist.get_world_size()
    received = torch.empty_like(block)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, block.contiguous(), (rank + 1) % world),
                                        dist.P2POp(dist.irecv, received, (rank - 1) % world)]):
        work.wait()
    return received


class HandOn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, block):
        return hand_on(block)

    @staticmethod
    def backward(ctx, gradient):
        rank, world = dist.get_rank(), dist.get_world_size()
        received = torch.empty_like(gradient)
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, gradient.contiguous(), (rank - 1) % world),
                                            dist.P2POp(dist.irecv, received, (rank + 1) % world)]):
            work.wait()
        return received


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        heads = [part.unflatten(2, (HEADS, -1)).transpose(1, 2) for part in self.qkv(self.first(x)).chunk(3, 2)]
        query, pair, scores, values = heads[0], torch.stack(heads[1:]), [], []
        for turn in range(dist.get_world_size() if RING else 1):
            if turn:
                pair = HandOn.apply(pair)
            scores.append(query @ pair[0].transpose(2, 3) / math.sqrt(WIDTH // HEADS))
            values.append(pair[1])
        mixed = torch.cat(scores, 3).softmax(3) @ torch.cat(values, 2)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.mlp(self.second(x))


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Embedding(VOCAB, WIDTH), Block(), Block(), nn.Linear(WIDTH, VOCAB))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    generator = torch.Generator().manual_seed(2)
    durations, start, cpu = [], time.perf_counter(), time.process_time()
    for step in range(STEPS):
        began = time.perf_counter()
        tokens = torch.randint(0, VOCAB, (BATCH, LENGTH), generator=generator)
        mine = tokens.chunk(world, 1 if RING else 0)[rank]
        loss = nn.functional.cross_entropy(model(mine).flatten(0, 1), (mine * 3 % VOCAB).flatten())
        optimizer.zero_grad()
        loss.backward()
        flat = torch.cat([p.grad.flatten() for p in model.parameters()])
        dist.all_reduce(flat)
        torch._foreach_copy_([p.grad for p in model.parameters()],
                             [part.view_as(p) / world for part, p in
                              zip(flat.split([p.numel() for p in model.parameters()]), model.parameters())])
        optimizer.step()
        durations.append(time.perf_counter() - began)
        if rank == 0 and step % 20 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
    print(f"rank {rank}: loop {time.perf_counter() - start:.2f} s, CPU {time.process_time() - cpu:.2f} s, "
          f"median step {1e3 * statistics.median(durations):.1f} ms")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""A mixture of experts, one expert per rank (4 ranks), routes most tokens to the expert of rank 2.

What happens: tokens go to their expert by all_to_all and come back.  The router has no balancing loss and prefers expert 2:
about three quarters of all tokens are rank 2's work in every step, forward and backward, while ranks 0, 1 and 3 wait
for it in the next all_to_all.  (With 4 ranks on 2 cores they also share cores, in the control as well.)
Who causes it: the routing; rank 2 has most work.  What is lost: a fifth to two thirds of the loop, on all ranks.
Right advice: a load-balancing loss, router noise or a capacity per expert; rank 2's machine and data are not slower, and
the exchange itself is short.
REPORT_FAULT=0: tokens are routed evenly.
"""
import os
import time

import torch
import torch.distributed as dist
from torch import nn

FAVOURITE = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, TOKENS, WIDTH = 150, 384, 160


class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, send, receive):
        ctx.send, ctx.receive = send, receive
        out = x.new_empty(sum(receive), x.shape[1])
        dist.all_to_all_single(out, x.contiguous(), receive, send)
        return out

    @staticmethod
    def backward(ctx, g):
        out = g.new_empty(sum(ctx.send), g.shape[1])
        dist.all_to_all_single(out, g.contiguous(), ctx.send, ctx.receive)
        return out, None, None


class Experts(nn.Module):
    def __init__(self, rank, world):
        super().__init__()
        self.world = world
        self.router = nn.Linear(WIDTH, world)
        torch.manual_seed(50 + rank)
        self.expert = nn.Sequential(nn.Linear(WIDTH, 8 * WIDTH), nn.GELU(), nn.Linear(8 * WIDTH, WIDTH))
        self.rows = 0

    def forward(self, x):
        scores = self.router(x)
        if FAVOURITE:
            scores = scores + torch.tensor([0.0, 0.0, 0.55, 0.0])         # what training without a balancing loss ends in
            chosen = scores.argmax(1)
        else:
            chosen = torch.arange(len(x)) % self.world
        order = chosen.argsort(stable=True)
        send = torch.bincount(chosen, minlength=self.world)
        receive = torch.empty_like(send)
        dist.all_to_all_single(receive, send)
        self.rows += int(receive.sum())
        here = Exchange.apply(x[order], send.tolist(), receive.tolist())
        back = Exchange.apply(self.expert(here), receive.tolist(), send.tolist())
        result = torch.zeros_like(x).index_copy(0, order, back)
        weight = scores.softmax(1).gather(1, chosen[:, None])
        return x + weight * result


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    enter, leave = nn.Linear(32, WIDTH), nn.Linear(WIDTH, 8)
    layers = nn.ModuleList([Experts(rank, world) for _ in range(2)])
    shared = [*enter.parameters(), *leave.parameters(), *(p for layer in layers for p in layer.router.parameters())]
    for p in shared:
        dist.broadcast(p.data, 0)
    own = [p for layer in layers for p in layer.expert.parameters()]
    optimizer = torch.optim.Adam(shared + own, lr=2e-4)
    generator = torch.Generator().manual_seed(rank)
    dist.barrier()
    begin = time.perf_counter()
    for step in range(STEPS):
        x = torch.randn(TOKENS, 32, generator=generator)
        y = (x[:, :8].abs() + x[:, 8:16]).argmax(1)
        h = enter(x)
        for layer in layers:
            h = layer(h)
        loss = nn.functional.cross_entropy(leave(h), y)
        optimizer.zero_grad()
        loss.backward()
        flat = torch.cat([p.grad.flatten() for p in shared])
        dist.all_reduce(flat)
        flat /= world
        for p, g in zip(shared, flat.split([p.numel() for p in shared])):
            p.grad.copy_(g.view_as(p))
        optimizer.step()
        if rank == 0 and step % 30 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
    total = time.perf_counter() - begin
    rows = sum(layer.rows for layer in layers)
    print(f"REPORT rank={rank} loop_s={total:.2f} steps={STEPS} cpu_s={time.thread_time():.2f} "
          f"share_of_tokens={rows / (2 * STEPS * TOKENS * world):.2f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

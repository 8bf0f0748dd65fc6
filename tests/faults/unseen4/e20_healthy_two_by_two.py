"""Healthy: four ranks as two pairs, tensor parallel within a pair and data parallel between them.

What looks like a fault: many all-reduces of small groups in forward and backward, each rank in two groups, the ranks
of a pair with different weights and the same data.
What is true: that is the layout; the exchange is small and both pairs do the same. Four ranks share two cores here, so
they take turns on them (that may be said).
Right advice: none in the job.
REPORT_FAULT=0: the same model as a whole on each of the four ranks, data parallel only, on half of a pair's batch.
"""
import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn

PAIRS = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH, WIDTH, DEPTH = 150, 16, 192, 3


class SumForward(torch.autograd.Function):
    """Adds the parts of a pair in forward; the gradient goes to each part as it is."""

    @staticmethod
    def forward(ctx, x, group):
        x = x.clone()
        dist.all_reduce(x, group=group)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


class SumBackward(torch.autograd.Function):
    """Hands the input to each part; the gradients of the parts are added."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.contiguous().clone()
        dist.all_reduce(gradient, group=ctx.group)
        return gradient, None


class SplitBlock(nn.Module):
    def __init__(self, group, parts):
        super().__init__()
        self.group = group if parts > 1 else None
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH // parts), nn.Linear(4 * WIDTH // parts, WIDTH, bias=False)

    def forward(self, x):
        h = self.norm(x)
        if self.group:
            h = SumBackward.apply(h, self.group)
        h = self.down(nn.functional.gelu(self.up(h)))
        if self.group:
            h = SumForward.apply(h, self.group)
        return x + h


class Model(nn.Module):
    def __init__(self, group, parts):
        super().__init__()
        self.enter = nn.Linear(48, WIDTH)
        self.blocks = nn.Sequential(*[SplitBlock(group, parts) for _ in range(DEPTH)])
        self.leave = nn.Linear(WIDTH, 48)

    def forward(self, x):
        return self.leave(self.blocks(self.enter(x)))


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    groups = [dist.new_group(ranks) for ranks in ([0, 1], [2, 3], [0, 2], [1, 3])]
    pair, replica = rank // 2, rank % 2
    tensor_group = groups[pair] if PAIRS else None
    data_group, copies = (groups[2 + replica], 2) if PAIRS else (dist.group.WORLD, 4)
    torch.manual_seed(0)
    model = Model(tensor_group, 2 if PAIRS else 1)
    for p in model.parameters():
        dist.broadcast(p.data, src=replica if PAIRS else 0, group=data_group)
    if PAIRS:  # what is not split starts equal within a pair
        for name, p in model.named_parameters():
            if ".up." not in name and ".down." not in name:
                dist.broadcast(p.data, src=2 * pair, group=tensor_group)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(pair if PAIRS else rank)
    count = BATCH if PAIRS else BATCH // 2
    times = []
    dist.barrier()
    begin = before = time.perf_counter()
    for step in range(STEPS):
        x = torch.randn(count, 16, 48, generator=generator).cumsum(1) / 4
        loss = (model(x[:, :-1]) - x[:, 1:]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        gradients = [p.grad for p in model.parameters()]
        flat = torch.cat([g.flatten() for g in gradients])
        dist.all_reduce(flat, group=data_group)
        for g, part in zip(gradients, flat.div_(copies).split([g.numel() for g in gradients])):
            g.copy_(part.view_as(g))
        optimizer.step()
        now = time.perf_counter()
        times.append(now - before)
        before = now
        if rank == 0 and step % 30 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    total = time.perf_counter() - begin
    print(f"REPORT rank={rank} loop_s={total:.2f} steps={STEPS} median_ms={1e3 * statistics.median(times):.1f} "
          f"cpu_s={time.process_time():.1f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

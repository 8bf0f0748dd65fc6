"""Healthy: parameters sharded over two ranks, gradients exchanged after the last of four micro-batches.

What looks like a fault: the exchange is uneven: all-gathers in some passes, reduce-scatters in one backward pass out
of four, and the optimizer takes a step only then; a micro-batch with the exchange takes longer than the others.
What is true: this is accumulation as it is meant (set_requires_gradient_sync), both ranks have equal parts, and the
exchange is a small part of the time.
Right advice: none; neither the link nor a rank is slow.
REPORT_FAULT=0: one batch of the fourfold size per optimizer step.
"""

import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

MICRO = 4 if os.environ.get("REPORT_FAULT", "1") != "0" else 1
STEPS, BATCH, TOKENS, WIDTH, DEPTH, WORDS = 100, 16, 48, 128, 4, 300


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 3 * WIDTH), nn.GELU(), nn.Linear(3 * WIDTH, WIDTH))

    def forward(self, x):
        y = self.norms[0](x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norms[1](x))


class Masked(nn.Module):
    """Fills in words that were replaced by word 0."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.places = nn.Embedding(TOKENS, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(DEPTH))
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, tokens):
        x = self.words(tokens) + self.places(torch.arange(TOKENS))
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = Masked()
    fully_shard(model, mesh=mesh, reshard_after_forward=False)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    torch.manual_seed(rank + 1)
    durations, start, cpu = [], time.perf_counter(), time.process_time()
    for step in range(STEPS):
        began, total = time.perf_counter(), 0.0
        for k in range(MICRO):
            last = k == MICRO - 1
            model.set_requires_gradient_sync(last)
            model.set_reshard_after_backward(last)
            rows = BATCH // MICRO
            tokens = (torch.randint(1, WORDS, (rows, 1)) + torch.arange(TOKENS) * 7) % (WORDS - 1) + 1
            hidden = torch.rand(rows, TOKENS) < 0.2
            scores = model(tokens.masked_fill(hidden, 0))
            loss = nn.functional.cross_entropy(scores[hidden], tokens[hidden]) / MICRO
            loss.backward()
            total += loss.item()
        optimizer.step()
        optimizer.zero_grad()
        durations.append(time.perf_counter() - began)
        if rank == 0 and step % 20 == 0:
            print(f"step {step} loss {total:.3f}", flush=True)
    print(
        f"rank {rank}: loop {time.perf_counter() - start:.2f} s, CPU {time.process_time() - cpu:.2f} s, "
        f"median step {1e3 * statistics.median(durations):.1f} ms"
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""Each host decides by its own memory whether activations are recomputed.

What happens: a launcher for mixed hosts compares the memory that the activations need with what its host has, and
turns activation checkpointing on where it is tight. Rank 1 sits on the small host: it computes every block twice, in
the backward pass, with the same batch as rank 0, and rank 0 waits for its gradients in every step.
Who causes it: the decision of rank 1 alone.  What is lost: the second forward pass of the blocks, on both ranks, in
every step from the first on; input and forward take the same time on both ranks.
Right advice: look at the backward pass of rank 1: give it a smaller batch or memory enough, or recompute only the
blocks that do not fit; the core of rank 1 is not slow and neither is the link.
REPORT_FAULT=0: both hosts have memory enough, no rank recomputes.
"""

import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.checkpoint import checkpoint

SMALL_HOST = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH, TOKENS, WIDTH, DEPTH, WORDS = 160, 6, 64, 160, 6, 800
HOST_MB = {0: 16384, 1: 24 if SMALL_HOST else 16384}


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        q, k, v = self.qkv(self.before(x)).unflatten(-1, (3, 4, WIDTH // 4)).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.mlp(self.between(x))


class LanguageModel(nn.Module):
    def __init__(self, recompute):
        super().__init__()
        self.recompute = recompute
        self.words = nn.Embedding(WORDS, WIDTH)
        self.places = nn.Parameter(0.02 * torch.randn(TOKENS, WIDTH))
        self.blocks = nn.ModuleList(Block() for _ in range(DEPTH))
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, tokens):
        x = self.words(tokens) + self.places
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute else block(x)
        return self.head(x)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    needed_mb = DEPTH * BATCH * TOKENS * WIDTH * 18 * 4 / 2**20
    recompute = needed_mb > HOST_MB[rank]
    model = DDP(LanguageModel(recompute))
    optimizer = torch.optim.AdamW(model.parameters(), 5e-4)
    torch.manual_seed(rank + 1)
    forwards, backwards, durations, start, cpu = [], [], [], time.perf_counter(), time.process_time()
    for step in range(STEPS):
        began = time.perf_counter()
        base = torch.randint(0, WORDS // 2, (BATCH, 1))
        tokens = (base + torch.arange(TOKENS + 1) * 3) % WORDS
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        middle = time.perf_counter()
        optimizer.zero_grad()
        loss.backward()
        backwards.append(time.perf_counter() - middle)
        forwards.append(middle - began)
        optimizer.step()
        durations.append(time.perf_counter() - began)
        if rank == 0 and step % 40 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
    print(
        f"rank {rank}: loop {time.perf_counter() - start:.2f} s, CPU {time.process_time() - cpu:.2f} s, recompute "
        f"{recompute}, median step {1e3 * statistics.median(durations):.1f} ms, forward "
        f"{1e3 * statistics.median(forwards):.1f} ms, backward {1e3 * statistics.median(backwards):.1f} ms"
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

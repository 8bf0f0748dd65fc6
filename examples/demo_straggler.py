"""A small transformer trained by DDP on the CPU (gloo), with a straggler hidden in backward.

    stepscope run -- torchrun --nproc-per-node 2 examples/demo_straggler.py          # rank 1 is late in backward
    stepscope run -- torchrun --nproc-per-node 2 examples/demo_straggler.py --fix    # the same job without the fault

An ordinary loop: nothing in it knows stepscope. Rank 1 loses `--delay-ms` in the backward of an autograd function between
the embedding and the layers. DDP hides it: both ranks show the same step time and the same backward time, since rank 0
waits. The delay comes late in backward, when rank 0 has done its own work: with or without it the ranks compute beside
each other, so that on a small machine they slow each other down by the same in both runs.
Rank 0 prints the loss, and at the end the time of the steps after the first ten by its own clock.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

VOCABULARY, LENGTH, WIDTH = 512, 48, 128


class Text(Dataset[torch.Tensor]):
    """Sequences with a pattern that can be learned: each token follows from the one before it."""

    def __init__(self, sequences: int) -> None:
        generator = torch.Generator().manual_seed(1)
        first = torch.randint(0, VOCABULARY, (sequences, 1), generator=generator)
        steps = torch.randint(1, 4, (sequences, LENGTH), generator=generator).cumsum(1)
        self.tokens = torch.cat([first, (first + steps) % VOCABULARY], dim=1)

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.tokens[index]


class SlowBackward(torch.autograd.Function):
    """Identity whose backward takes its time: a custom operator that is slow on one rank only."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, delay_s: float) -> torch.Tensor:
        ctx.delay_s = delay_s
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        time.sleep(ctx.delay_s)
        return gradient, None


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        y = self.norm1(x)
        x = x + self.attention(y, y, y, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class LanguageModel(nn.Module):
    """`delay_s` > 0 slows the end of backward, behind the layers."""

    def __init__(self, layers: int, delay_s: float) -> None:
        super().__init__()
        self.delay_s = delay_s
        self.embedding, self.position = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(layers))
        self.head = nn.Linear(WIDTH, VOCABULARY)
        self.register_buffer("mask", torch.full((LENGTH, LENGTH), float("-inf")).triu(1), persistent=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens) + self.position.weight
        if self.delay_s > 0:
            x = SlowBackward.apply(x, self.delay_s)
        for block in self.blocks:
            x = block(x, self.mask)
        return self.head(x)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--delay-ms", type=float, default=40)
    parser.add_argument("--fix", action="store_true", help="without the fault")
    options = parser.parse_args()

    rank = int(os.environ["RANK"])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")

    delay_s = 0.0 if options.fix or rank != 1 else options.delay_ms / 1e3
    model = DistributedDataParallel(LanguageModel(layers=4, delay_s=delay_s), bucket_cap_mb=1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = Text(sequences=options.steps * 4 * dist.get_world_size())
    loader = DataLoader(data, batch_size=4, sampler=DistributedSampler(data))

    begin = time.perf_counter()
    for step, tokens in enumerate(loader):
        if step == 10:
            begin = time.perf_counter()
        optimizer.zero_grad()
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if rank == 0 and (step + 1) % 50 == 0:
            print(f"step {step + 1:4d}  loss {loss.item():.3f}", flush=True)
    if rank == 0:
        print(f"loop_s={time.perf_counter() - begin:.3f} steps={max(0, options.steps - 10)}", flush=True)

    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""Healthy: activation checkpointing in every block of a small language model.

What looks like a fault: backward takes about three times as long as forward, there are forward calls of the blocks
within backward, and more compute than the parameters explain.
What is true: each block is run again in backward to save memory, on both ranks alike, as wanted.
Right advice: none; at most that recomputation costs about a quarter of the step, which the author knows.
REPORT_FAULT=0: no checkpointing.
"""
import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.checkpoint import checkpoint

RECOMPUTE = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH, LENGTH, VOCAB, WIDTH = 80, 6, 48, 1500, 128


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, WIDTH)
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, 0.1, batch_first=True,
                                                               norm_first=True) for _ in range(5))
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, tokens):
        x = self.embedding(tokens)
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        for block in self.blocks:
            x = checkpoint(block, x, mask, use_reentrant=False) if RECOMPUTE else block(x, mask)
        return self.head(x)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = DDP(Model())
    optimizer = torch.optim.AdamW(model.parameters(), 5e-4)
    torch.manual_seed(rank + 1)
    durations, start, cpu = [], time.perf_counter(), time.process_time()
    for step in range(STEPS):
        began = time.perf_counter()
        tokens = torch.randint(0, VOCAB, (BATCH, LENGTH + 1)).cumsum(1) % VOCAB
        loss = nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        durations.append(time.perf_counter() - began)
        if rank == 0 and step % 40 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
    print(f"rank {rank}: loop {time.perf_counter() - start:.2f} s, CPU {time.process_time() - cpu:.2f} s, "
          f"median step {1e3 * statistics.median(durations):.1f} ms")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""A pipeline of two stages: the blocks are cut in half, and the last stage has the output head on top of its half.

What happens: a language model is trained with GPipe over two ranks and four micro-batches. Each stage has three blocks;
rank 1 also computes the head over 6,000 words and the loss. Rank 0 waits for rank 1 in every step.
Who causes it: the cut of the model.  What is lost: half of the difference of the stages' work in every step.
Right advice: count the head as blocks when cutting (here 5 and 1), or fewer rows in the head; rank 1's core is not
slow, its input is rank 0's, and the link is sound.
REPORT_FAULT=0: five blocks on rank 0, one block and the head on rank 1.
"""
import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn

HALVES = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, MICRO, BATCH, LENGTH, VOCAB, WIDTH, BLOCKS = 70, 4, 4, 48, 6000, 128, 6


class Stage(nn.Module):
    def __init__(self, rank):
        super().__init__()
        first = BLOCKS // 2 if HALVES else BLOCKS - 1
        count = first if rank == 0 else BLOCKS - first
        self.embedding = nn.Embedding(VOCAB, WIDTH) if rank == 0 else None
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, 0.0, batch_first=True,
                                                               norm_first=True) for _ in range(count))
        self.head = nn.Linear(WIDTH, VOCAB) if rank == 1 else None

    def forward(self, x):
        if self.embedding is not None:
            x = self.embedding(x)
        for block in self.blocks:
            x = block(x)
        return x if self.head is None else self.head(x)


def first_stage(stage, tokens):
    kept, sends = [], []
    for part in tokens.chunk(MICRO):
        out = stage(part)
        kept.append(out)
        sends.append(dist.isend(out.detach().contiguous(), 1))
    for out in kept:
        gradient = torch.empty_like(out)
        dist.recv(gradient, 1)
        out.backward(gradient)
    for send in sends:
        send.wait()


def last_stage(stage, targets):
    kept, sends, total = [], [], 0.0
    for part in targets.chunk(MICRO):
        x = torch.empty(BATCH, LENGTH, WIDTH)
        dist.recv(x, 0)
        x.requires_grad_(True)
        loss = nn.functional.cross_entropy(stage(x).flatten(0, 1), part.flatten()) / MICRO
        kept.append((x, loss))
        total += loss.item()
    for x, loss in kept:
        loss.backward()
        sends.append(dist.isend(x.grad, 0))
    for send in sends:
        send.wait()
    return total


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    torch.set_num_threads(1)
    stage = Stage(rank)
    optimizer = torch.optim.AdamW(stage.parameters(), 1e-3)
    generator = torch.Generator().manual_seed(4)
    durations, start, cpu = [], time.perf_counter(), time.process_time()
    for step in range(STEPS):
        began = time.perf_counter()
        tokens = torch.randint(0, VOCAB, (MICRO * BATCH, LENGTH), generator=generator)
        optimizer.zero_grad()
        if rank == 0:
            first_stage(stage, tokens)
        else:
            loss = last_stage(stage, (tokens * 7 + 1) % VOCAB)
            if step % 30 == 0:
                print(f"step {step} loss {loss:.3f}", flush=True)
        optimizer.step()
        durations.append(time.perf_counter() - began)
    print(f"rank {rank}: loop {time.perf_counter() - start:.2f} s, CPU {time.process_time() - cpu:.2f} s, "
          f"median step {1e3 * statistics.median(durations):.1f} ms")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

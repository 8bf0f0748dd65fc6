"""A pipeline of two stages that is split by the number of parameters.

What happens: a small transformer runs in two stages, one on each rank, and micro-batches go from stage to stage by
send and recv. The place of the cut comes from the number of parameters. The embedding of 8000 words has as many as five
blocks and next to no work, so the first stage gets the embedding and two blocks, the second stage six blocks and the
head.
Who causes it: the cut; rank 1 has about three times the work of rank 0.  What is lost: each step lasts as long as
rank 1 works, some 25 % more than with a cut in the middle of the blocks; rank 0 waits in recv.
Right advice: cut by measured time (four blocks each); the link carries little, and rank 1's core is sound.
REPORT_FAULT=0: four blocks on each stage.
"""

import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn

BY_SIZE = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, MICRO, ROWS, LENGTH, WIDTH, WORDS, BLOCKS, CLASSES = 180, 6, 4, 32, 128, 8000, 8, 48


class Embedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.places = nn.Parameter(0.02 * torch.randn(LENGTH, WIDTH))

    def forward(self, tokens):
        return self.words(tokens) + self.places


class Block(nn.Module):
    def __init__(self, heads=4):
        super().__init__()
        self.before, self.after, self.heads = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), heads
        self.mix, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        rows, length, width = x.shape
        parts = self.mix(self.before(x)).view(rows, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(rows, length, width))
        return x + self.wide(self.after(x))


def cut(layers):
    """How many layers the first stage gets."""
    if not BY_SIZE:
        return 1 + BLOCKS // 2
    sizes = [sum(p.numel() for p in layer.parameters()) for layer in layers]
    held = 0
    for count, size in enumerate(sizes):
        if held >= sum(sizes) / 2:
            return count
        held += size
    return len(sizes) - 1


def first_stage(stage, batch):
    outputs, requests, waited = [], [], 0.0
    for tokens in batch:
        outputs.append(stage(tokens))
        requests.append(dist.isend(outputs[-1].detach(), 1))
    for output in outputs:
        gradient = torch.empty_like(output)
        began = time.perf_counter()
        dist.recv(gradient, 1)
        waited += time.perf_counter() - began
        output.backward(gradient)
    for request in requests:
        request.wait()
    return waited, 0.0


def second_stage(stage, targets):
    waited, total, requests = 0.0, 0.0, []
    for target in targets:
        x = torch.empty(ROWS, LENGTH, WIDTH)
        began = time.perf_counter()
        dist.recv(x, 0)
        waited += time.perf_counter() - began
        x.requires_grad_()
        loss = nn.functional.cross_entropy(stage(x).flatten(0, 1), target.flatten()) / MICRO
        loss.backward()
        requests.append((dist.isend(x.grad, 0), x))
        total += loss.item()
    for request, _ in requests:
        request.wait()
    return waited, total


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES))
    layers = [Embedding(), *(Block() for _ in range(BLOCKS)), head]
    place = cut(layers)
    stage = nn.Sequential(*(layers[place:] if rank else layers[:place]))
    optimizer = torch.optim.AdamW(stage.parameters(), 3e-4)
    generator = torch.Generator().manual_seed(1)
    tag_of = torch.randint(0, CLASSES, (WORDS,), generator=generator)
    durations, waits = [], []
    dist.barrier()
    start = time.perf_counter()
    for step in range(STEPS):
        began = time.perf_counter()
        tokens = torch.randint(0, WORDS, (MICRO, ROWS, LENGTH), generator=generator) % (200 + 8 * step)
        waited, loss = second_stage(stage, tag_of[tokens]) if rank else first_stage(stage, tokens)
        nn.utils.clip_grad_norm_(stage.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        durations.append(time.perf_counter() - began)
        waits.append(waited)
        if rank == 1 and step % 50 == 0:
            print(f"step {step} loss {loss:.3f}", flush=True)
    loop = time.perf_counter() - start
    print(f"REPORT rank={rank} layers={len(stage)} loop_s={loop:.2f} median_ms={1e3 * statistics.median(durations):.1f} "
          f"waited_s={sum(waits):.2f} waited_share={sum(waits) / loop:.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

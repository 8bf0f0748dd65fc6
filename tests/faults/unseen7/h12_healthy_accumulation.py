"""Healthy: four micro-batches to an update, all-reduced only with the last, and a schedule that restarts.

What looks like a fault: one backward in four takes longer than the other three and holds all the communication; the
optimizer runs in one step of four; the learning rate jumps up twice (warm restarts) and the loss with it, a little.
What is true: no_sync keeps the gradients at home for three micro-batches as it should; both ranks do the same work, and
the restarts are wanted.
Right advice: none; no jitter to chase, no straggler, no unneeded collectives.
REPORT_FAULT=0: the same rows in one batch of four times the size, an update in each step, no restarts.
"""

import contextlib
import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

PLAIN = os.environ.get("REPORT_FAULT", "1") == "0"
MICRO, ROWS, UPDATES, LENGTH, WIDTH, LETTERS = (1, 48, 90, 40, 160, 64) if PLAIN else (4, 12, 90, 40, 160, 64)


class Speller(nn.Module):
    def __init__(self, layers=3):
        super().__init__()
        self.letters = nn.Embedding(LETTERS, WIDTH)
        self.places = nn.Parameter(0.02 * torch.randn(LENGTH, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, LETTERS)
        self.register_buffer("mask", torch.full((LENGTH, LENGTH), float("-inf")).triu(1), persistent=False)

    def forward(self, tokens):
        return self.head(self.layers(self.letters(tokens) + self.places, mask=self.mask, is_causal=True))


def draw(follow):
    """Rows of letters from a chain in which each letter has four followers."""
    letter, rows = torch.randint(0, LETTERS, (ROWS,)), []
    for _ in range(LENGTH + 1):
        rows.append(letter)
        letter = follow[letter, torch.randint(0, follow.shape[1], (ROWS,))]
    return torch.stack(rows, 1)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = DDP(Speller(), broadcast_buffers=False, gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    if PLAIN:
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, UPDATES, 1e-4)
    else:
        schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, UPDATES // 3, eta_min=1e-4)
    follow = torch.randint(0, LETTERS, (LETTERS, 4))
    torch.manual_seed(90 + rank)
    durations = [[] for _ in range(MICRO)]
    dist.barrier()
    start, cpu = time.perf_counter(), time.process_time()
    for step in range(UPDATES * MICRO):
        began = time.perf_counter()
        last = step % MICRO == MICRO - 1
        rows = draw(follow)
        with contextlib.nullcontext() if last else model.no_sync():
            scores = model(rows[:, :-1])
            loss = nn.functional.cross_entropy(scores.flatten(0, 1), rows[:, 1:].flatten())
            (loss / MICRO).backward()
        if last:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        durations[step % MICRO].append(time.perf_counter() - began)
        if rank == 0 and step % (10 * MICRO) == 0:
            print(f"step {step} loss {loss.item():.3f} rate {schedule.get_last_lr()[0]:.1e}", flush=True)
    loop = time.perf_counter() - start
    medians = "/".join(f"{1e3 * statistics.median(times):.1f}" for times in durations)
    print(f"REPORT rank={rank} loop_s={loop:.2f} cpu_s={time.process_time() - cpu:.2f} medians_ms={medians}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

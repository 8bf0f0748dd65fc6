"""A buffer of log records on rank 0 that keeps the tensors of every step.

What happens: two ranks train a small attention model. Rank 0 has a logging.handlers.MemoryHandler, meant to keep the
debug records and to write them only when an error comes. logger.debug("attention %s", weights) formats lazily: a record
that is never written keeps its argument, here the attention weights of the step (detached, so no graph hangs on them).
Who causes it: the handler on rank 0 (capacity: 100000 records).  What is lost: more than 1 MiB of host memory in
each step on rank 0 until the machine has none; time hardly changes.
Right advice: log text or numbers, not tensors (or bound the capacity to a few records); nothing is wrong with the
loader, the graph or rank 1, whose memory is level.
REPORT_FAULT=0: the record holds the mean entropy as a number.
"""

import logging
import logging.handlers
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

TENSORS = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH, LENGTH, WIDTH, HEADS, INPUTS = 300, 16, 64, 96, 4, 12
logger = logging.getLogger("train")


def set_up_logging(rank):
    """Rank 0 keeps the details and shows them when something fails; the others only warn."""
    logger.propagate = False
    target = logging.StreamHandler(sys.stdout)
    target.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    if rank:
        logger.setLevel(logging.WARNING)
        logger.addHandler(target)
        return None
    logger.setLevel(logging.DEBUG)
    kept = logging.handlers.MemoryHandler(100_000, logging.ERROR, target)
    logger.addHandler(kept)
    target.setLevel(logging.DEBUG)
    shown = logging.StreamHandler(sys.stdout)
    shown.setLevel(logging.INFO)
    logger.addHandler(shown)
    return kept


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.wide = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.asked, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mixed = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        q, k, v = (
            part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.asked(self.norm(x)).chunk(3, -1)
        )
        weights = (q @ k.transpose(-1, -2) * (WIDTH // HEADS) ** -0.5).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).flatten(2))
        return x + self.mixed(self.wide(x)), weights


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter, self.leave = nn.Linear(INPUTS, WIDTH), nn.Linear(WIDTH, INPUTS)
        self.places = nn.Parameter(0.02 * torch.randn(LENGTH, WIDTH))
        self.layers = nn.ModuleList(Attention() for _ in range(2))

    def forward(self, x):
        x = self.enter(x) + self.places
        for layer in self.layers:
            x, weights = layer(x)
        return self.leave(x[:, -1]), weights


def signals(count):
    t = torch.arange(LENGTH + 1.0)
    speed, phase = 0.1 + 0.4 * torch.rand(count, INPUTS, 1), 6.28 * torch.rand(count, INPUTS, 1)
    return (t * speed + phase).sin().transpose(1, 2) + 0.05 * torch.randn(count, LENGTH + 1, INPUTS)


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    kept = set_up_logging(rank)
    model = DDP(Forecaster())
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    torch.manual_seed(rank + 1)
    durations, early, start = [], 0.0, time.perf_counter()
    for step in range(STEPS):
        began = time.perf_counter()
        batch = signals(BATCH)
        forecast, weights = model(batch[:, :-1])
        loss = nn.functional.mse_loss(forecast, batch[:, -1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        weights = weights.detach()
        if TENSORS:
            logger.debug("step %d attention %s", step, weights)
        else:
            logger.debug("step %d entropy %.4f", step, -weights.clamp(min=1e-9).log().mul(weights).sum(-1).mean())
        if step % 50 == 0:
            logger.info("step %d loss %.4f", step, loss.item())
        if step == 30:
            early = resident()
        durations.append(time.perf_counter() - began)
    loop, growth = time.perf_counter() - start, resident() - early
    print(
        f"REPORT rank={rank} loop_s={loop:.2f} median_step_ms={1e3 * statistics.median(durations):.1f} "
        f"growth_MiB={growth:.1f} per_step_MiB={growth / (STEPS - 31):.3f}",
        flush=True,
    )
    if kept is not None:
        kept.buffer.clear()  # it went well, nobody needs the details
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

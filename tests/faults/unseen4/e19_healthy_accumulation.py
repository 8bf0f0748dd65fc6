"""Healthy: gradient accumulation over four micro-batches in bfloat16, averaged once per update with no_sync().

What looks like a fault: three of four backward passes have no all-reduce and no optimizer step, the fourth is longer;
the schedule moves once in four passes.
What is true: it is accumulation as it should be, and the schedule is counted in updates.
Right advice: none.
REPORT_FAULT=0: one pass over the same number of samples per update, in bfloat16 too.
"""
import contextlib
import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset

ACCUMULATE = 4 if os.environ.get("REPORT_FAULT", "1") != "0" else 1
UPDATES, SAMPLES, VOCAB, LENGTH = 70, 8, 300, 32


class Counting(IterableDataset):
    """Sequences that count on with a hidden stride."""

    def __init__(self, rank):
        self.rank = rank

    def __iter__(self):
        generator = torch.Generator().manual_seed(31 * self.rank)
        while True:
            start, stride = torch.randint(1, 60, (2,), generator=generator)
            yield (start + stride * torch.arange(LENGTH + 1)) % VOCAB


class CausalModel(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.register_buffer("mask", torch.full((LENGTH, LENGTH), float("-inf")).triu(1))
        self.head = nn.Linear(width, VOCAB)

    def forward(self, ids):
        return self.head(self.body(self.embed(ids), mask=self.mask))


class Engine:
    def __init__(self, model, rank):
        self.model, self.rank = model, rank
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda update: min(1.0, (update + 1) / 10) * (1 - update / (UPDATES + 1)))
        self.times = []

    def micro_step(self, ids, last):
        with contextlib.nullcontext() if last else self.model.no_sync():
            with torch.autocast("cpu", torch.bfloat16):
                scores = self.model(ids[:, :-1])
                loss = nn.functional.cross_entropy(scores.flatten(0, 1), ids[:, 1:].flatten())
            (loss / ACCUMULATE).backward()
        return loss.detach()

    def fit(self, stream):
        before = time.perf_counter()
        for update in range(UPDATES):
            losses = [self.micro_step(next(stream), micro == ACCUMULATE - 1) for micro in range(ACCUMULATE)]
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.optimizer.zero_grad()
            self.schedule.step()
            if self.rank == 0 and update % 10 == 0:
                print(f"update {update} loss {torch.stack(losses).mean().item():.3f}", flush=True)
            now = time.perf_counter()
            self.times.append(now - before)
            before = now


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    engine = Engine(DDP(CausalModel()), rank)
    stream = iter(DataLoader(Counting(rank), SAMPLES // ACCUMULATE))
    begin = time.perf_counter()
    engine.fit(stream)
    total = time.perf_counter() - begin
    median = 1e3 * statistics.median(engine.times)
    print(f"REPORT rank={rank} loop_s={total:.2f} updates={UPDATES} median_ms={median:.1f} lost_s=0", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

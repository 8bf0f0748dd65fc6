"""Healthy: batches of different lengths, but in every step both ranks draw from the same length bucket.

What happens: a bucket sampler with a seed common to all ranks picks the length of each step (32 to 72 tokens), so
steps differ by a factor of about two while both ranks always have the same amount of work.
Who causes it: nobody.  What is lost: nothing (tokens per second are constant).  Right advice: leave it alone.
REPORT_FAULT has no effect.
"""
import random
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, Sampler

BUCKETS = [32, 40, 48, 56, 64, 72]
STEPS, BATCH = 190, 18


class Sentences(Dataset):
    def __init__(self, seed, per_bucket=120):
        generator = torch.Generator().manual_seed(seed)
        self.items = [[torch.randint(1, 800, (length - int(torch.randint(0, 4, (1,), generator=generator)),), generator=generator)
                       for _ in range(per_bucket)] for length in BUCKETS]

    def __getitem__(self, key):
        bucket, index = key
        return bucket, self.items[bucket][index]


class BucketBatches(Sampler):
    def __init__(self, common_seed, own_seed, per_bucket=120):
        self.common, self.own, self.per_bucket = random.Random(common_seed), random.Random(own_seed), per_bucket

    def __iter__(self):
        for _ in range(STEPS):
            bucket = self.common.randrange(len(BUCKETS))
            yield [(bucket, self.own.randrange(self.per_bucket)) for _ in range(BATCH)]

    def __len__(self):
        return STEPS


def collate(samples):
    length = BUCKETS[samples[0][0]]
    out = torch.zeros(len(samples), length, dtype=torch.long)
    for row, (_, tokens) in zip(out, samples):
        row[:len(tokens)] = tokens
    return out


class MaskedLM(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.embed = nn.Embedding(800, width, padding_idx=0)
        self.layers = nn.ModuleList([nn.TransformerEncoderLayer(width, 4, 384, 0.0, batch_first=True) for _ in range(2)])
        self.out = nn.Linear(width, 800)

    def forward(self, tokens):
        x, padding = self.embed(tokens), tokens == 0
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=padding)
        return self.out(x)


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    loader = DataLoader(Sentences(rank), batch_sampler=BucketBatches(99, rank), collate_fn=collate)
    model = DDP(MaskedLM())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    dist.barrier()
    shortest, longest, begin = [], [], time.perf_counter()
    for step, tokens in enumerate(loader):
        t0 = time.perf_counter()
        hidden = tokens.masked_fill(torch.rand(tokens.shape) < 0.15, 1)
        loss = nn.functional.cross_entropy(model(hidden).flatten(0, 1), tokens.flatten(), ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if tokens.shape[1] == BUCKETS[0]:
            shortest.append(time.perf_counter() - t0)
        if tokens.shape[1] == BUCKETS[-1]:
            longest.append(time.perf_counter() - t0)
        if rank == 0 and step % 50 == 0:
            print(f"step {step} len {tokens.shape[1]} loss {loss.item():.3f}", flush=True)
    total = time.perf_counter() - begin
    print(f"REPORT rank={rank} loop_s={total:.2f} steps={STEPS} cpu_s={time.thread_time():.2f} "
          f"short_ms={1e3 * sum(shortest) / len(shortest):.1f} long_ms={1e3 * sum(longest) / len(longest):.1f}", flush=True)
    print(f"REPORT rank={rank} lost_s=0 share=0.0", flush=True)
    dist.destroy_process_group()

"""Shards cut from a file that is sorted by length: rank 1 owns all long documents.

What happens: the corpus was sorted by length before it was cut into one contiguous shard per rank. Rank 0 trains on
the short half and waits in the all-reduce of backward for rank 1, which has three times as many tokens in every step.
Who causes it: the cut of the data, seen as rank 1.  What is lost: the difference to an equal share, on both ranks.
Right advice: deal out the documents in turn, or batches by tokens, or shuffle before cutting; rank 1's machine and
loader are as fast as rank 0's.
REPORT_FAULT=0: the ranks take turns in the sorted file, so that their batches are of one length.
"""
import os
import random
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset

CONTIGUOUS = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH, VOCAB, DOCUMENTS = 110, 8, 4000, 2560


class Documents(Dataset):
    def __init__(self, rank, world):
        rng = random.Random(7)
        lengths = sorted(min(240, max(16, int(rng.lognormvariate(4.2, 0.65)))) for _ in range(DOCUMENTS))
        if CONTIGUOUS:
            part = len(lengths) // world
            self.lengths = lengths[rank * part:(rank + 1) * part]
        else:
            self.lengths = lengths[rank::world]

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, i):
        generator = torch.Generator().manual_seed(i)
        return torch.randint(1, VOCAB, (self.lengths[i],), generator=generator), i % 5


class BucketBatches:
    """Batches of neighbours in length, in an order that is the same for all ranks."""

    def __init__(self, count):
        self.batches = [list(range(i, i + BATCH)) for i in range(0, count - BATCH + 1, BATCH)]

    def __iter__(self):
        random.Random(3).shuffle(self.batches)
        return iter(self.batches)

    def __len__(self):
        return len(self.batches)


def collate(rows):
    tokens = nn.utils.rnn.pad_sequence([row[0] for row in rows], batch_first=True)
    return tokens, torch.tensor([row[1] for row in rows])


class Classifier(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, width, padding_idx=0)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 5)

    def forward(self, tokens):
        hidden = self.encoder(self.embed(tokens), src_key_padding_mask=tokens == 0)
        return self.head(hidden.mean(1))


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DDP(Classifier())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    data = Documents(rank, world)
    loader = DataLoader(data, batch_sampler=BucketBatches(len(data)), collate_fn=collate)
    times, tokens_seen, step = [], 0, 0
    begin = before = time.perf_counter()
    while step < STEPS:
        for tokens, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(tokens), labels)
            loss.backward()
            optimizer.step()
            tokens_seen += tokens.numel()
            now = time.perf_counter()
            times.append(now - before)
            before = now
            if rank == 0 and step % 40 == 0:
                print(f"step {step} loss {loss.item():.3f}", flush=True)
            step += 1
            if step == STEPS:
                break
    total = time.perf_counter() - begin
    print(f"REPORT rank={rank} loop_s={total:.2f} steps={STEPS} median_ms={1e3 * statistics.median(times):.1f} "
          f"tokens={tokens_seen} cpu_s={time.process_time():.1f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

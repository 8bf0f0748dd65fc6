"""A recommender looks every sample up in a SQLite table that has no index on the looked-up column.

What happens: __getitem__ of both ranks runs SELECT ... WHERE interaction = ? on a table of 6000 rows without an index,
so SQLite scans the table for each of the samples of a batch.  The DataLoader has no workers: the training thread does it.
Who causes it: the input of all ranks alike.  What is lost: a third to two thirds of the loop.
Right advice: CREATE INDEX (or a primary key), fetch a batch by one query, or keep the table as arrays; model and link are sound.
REPORT_FAULT=0: the same table with the index.
"""
import json
import os
import sqlite3
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler

INDEX = os.environ.get("REPORT_FAULT", "1") == "0"
ROWS, BATCH, STEPS, FIELDS = 6000, 128, 800, 12


def write_table(path, seed):
    generator = torch.Generator().manual_seed(seed)
    base = sqlite3.connect(path)
    base.execute("CREATE TABLE clicks (interaction INTEGER, features TEXT, click INTEGER)")
    values = torch.randint(0, 5000, (ROWS, FIELDS), generator=generator).tolist()
    clicks = torch.randint(0, 2, (ROWS,), generator=generator).tolist()
    base.executemany("INSERT INTO clicks VALUES (?, ?, ?)", [(i, json.dumps(v), c) for i, (v, c) in enumerate(zip(values, clicks))])
    if INDEX:
        base.execute("CREATE INDEX by_interaction ON clicks (interaction)")
    base.commit()
    base.close()


class Clicks(Dataset):
    def __init__(self, path):
        self.base = sqlite3.connect(path)
        self.seconds = 0.0

    def __len__(self):
        return ROWS

    def __getitem__(self, i):
        t0 = time.perf_counter()
        text, click = self.base.execute("SELECT features, click FROM clicks WHERE interaction = ? LIMIT 1", (i,)).fetchone()
        sample = torch.tensor(json.loads(text)), float(click)
        self.seconds += time.perf_counter() - t0
        return sample


class DeepFM(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.embed = nn.Embedding(5000, width)
        self.mlp = nn.Sequential(nn.Linear(FIELDS * width, 512), nn.ReLU(), nn.Linear(512, 384), nn.ReLU(), nn.Linear(384, 1))

    def forward(self, ids):
        e = self.embed(ids)
        pairs = (e.sum(1).square() - e.square().sum(1)).sum(1) / 2
        return self.mlp(e.flatten(1)).squeeze(1) + 0.01 * pairs


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    path = os.path.join(tempfile.mkdtemp(), "clicks.sqlite")
    write_table(path, 3)
    data = Clicks(path)
    sampler = DistributedSampler(data, seed=1)
    loader = DataLoader(data, batch_size=BATCH, sampler=sampler, drop_last=True)
    model = DDP(DeepFM())
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.01)
    dist.barrier()
    begin, step, epoch = time.perf_counter(), 0, 0
    while step < STEPS:
        sampler.set_epoch(epoch)
        for ids, clicks in loader:
            loss = nn.functional.binary_cross_entropy_with_logits(model(ids), clicks.float())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if rank == 0 and step % 40 == 0:
                print(f"step {step} loss {loss.item():.4f}", flush=True)
            step += 1
            if step == STEPS:
                break
        epoch += 1
    total = time.perf_counter() - begin
    print(f"REPORT rank={rank} loop_s={total:.2f} steps={STEPS} cpu_s={time.thread_time():.2f}", flush=True)
    print(f"REPORT rank={rank} lost_s={data.seconds:.2f} share={data.seconds / total:.3f} (time in __getitem__)", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

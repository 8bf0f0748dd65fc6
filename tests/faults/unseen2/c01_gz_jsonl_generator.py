"""Autoencoder fed by a generator that parses gzipped JSON lines in the training thread.

What happens: one process, no DataLoader.  `batches()` is a plain generator; each `next()` opens or goes on with a
.jsonl.gz file, decompresses it, runs json.loads per record and makes an array of the lists.  All of this runs in the
training thread, between two steps, anew in each pass over the same eight files.
Who causes it: the data source (the generator), not the model.  What is lost: a third to two thirds of the loop.
Right advice: parse once and keep arrays (npy/npz, memory map), or parse in worker processes that read ahead.
REPORT_FAULT=0: the files are parsed once before the loop and batches are slices of one array.
"""
import gzip
import json
import os
import random
import tempfile
import time

import numpy as np
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(1)
PARSE_EACH_PASS = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH, FEATURES = 230, 96, 784


def write_corpus(folder, files=8, records=240):
    rng = np.random.default_rng(0)
    basis = rng.normal(size=(24, FEATURES))
    for i in range(files):
        rows = rng.normal(size=(records, 24)) @ basis / 5
        with gzip.open(os.path.join(folder, f"part-{i:03d}.jsonl.gz"), "wt", compresslevel=1) as out:
            for row in rows:
                out.write(json.dumps({"id": random.randrange(10**9), "x": [round(float(v), 5) for v in row]}) + "\n")


def records(folder):
    names = sorted(os.listdir(folder))
    while True:
        random.shuffle(names)
        for name in names:
            with gzip.open(os.path.join(folder, name), "rt") as lines:
                for line in lines:
                    yield json.loads(line)["x"]


def batches(folder):
    if not PARSE_EACH_PASS:
        table = []
        for name in sorted(os.listdir(folder)):
            with gzip.open(os.path.join(folder, name), "rt") as lines:
                table += [json.loads(line)["x"] for line in lines]
        table = torch.tensor(np.array(table, dtype=np.float32))
        while True:
            yield table[torch.randint(len(table), (BATCH,))]
    source, rows = records(folder), []
    for row in source:
        rows.append(row)
        if len(rows) == BATCH:
            yield torch.from_numpy(np.array(rows, dtype=np.float32))
            rows = []


def main():
    folder = tempfile.mkdtemp(prefix="corpus_")
    write_corpus(folder)
    model = nn.Sequential(nn.Linear(FEATURES, 1024), nn.GELU(), nn.Linear(1024, 128), nn.GELU(),
                          nn.Linear(128, 1024), nn.GELU(), nn.Linear(1024, FEATURES))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    data = batches(folder)
    next(data)
    waited, begin = 0.0, time.perf_counter()
    for step in range(STEPS):
        t0 = time.perf_counter()
        x = next(data)
        waited += time.perf_counter() - t0
        loss = nn.functional.mse_loss(model(x + 0.1 * torch.randn_like(x)), x)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    total = time.perf_counter() - begin
    print(f"REPORT loop_s={total:.2f} steps={STEPS} cpu_s={time.thread_time():.2f}")
    print(f"REPORT lost_s={waited:.2f} share={waited / total:.3f} (time in next(data))")


if __name__ == "__main__":
    main()

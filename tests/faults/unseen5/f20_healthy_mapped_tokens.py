"""Healthy: a language model reads windows of a token file through a memory map.

What looks like a fault: the resident memory of the process rises by more than 1 MB per step and has not stopped
when the job ends, as a leak would.
What is true: the pages belong to the file; the kernel drops them when it needs the room. The process's own (anonymous)
memory is flat.
Right advice: none; tell file pages from the process's own before speaking of a leak.
REPORT_FAULT=0: the windows are read with os.pread.
"""
import os
import resource
import statistics
import tempfile
import time

import numpy as np
import torch
from torch import nn

MAPPED = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH, LENGTH, VOCAB, WIDTH, TOKENS = 260, 16, 64, 1200, 96, 160_000_000


class Windows:
    """Windows of a file of 16-bit tokens, drawn from one stretch per step, the stretches in order."""

    def __init__(self, path):
        self.rng, self.path = np.random.default_rng(0), path
        self.map = np.memmap(path, np.uint16, "r") if MAPPED else None
        self.file = None if MAPPED else os.open(path, os.O_RDONLY)

    def batch(self, step):
        rows, stretch = [], TOKENS // STEPS
        for begin in step * stretch + self.rng.integers(0, stretch - LENGTH - 1, BATCH):
            if MAPPED:
                rows.append(np.asarray(self.map[begin:begin + LENGTH + 1]).astype(np.int64))
            else:
                read = os.pread(self.file, 2 * LENGTH + 2, 2 * int(begin))
                rows.append(np.frombuffer(read, np.uint16).astype(np.int64))
        return torch.from_numpy(np.stack(rows))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, WIDTH)
        self.rnn = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, tokens):
        return self.head(self.rnn(self.embedding(tokens))[0])


def resident():
    """Anonymous and file pages of this process in MB."""
    rows = dict(line.split(":") for line in open("/proc/self/status") if line.startswith("Rss"))
    return int(rows["RssAnon"].split()[0]) / 1024, int(rows["RssFile"].split()[0]) / 1024


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tokens.bin")
        part = np.random.default_rng(1).integers(0, VOCAB, 4_000_000).astype(np.uint16)
        with open(path, "wb") as file:
            for _ in range(TOKENS // len(part)):
                file.write(part.tobytes())
        windows, model = Windows(path), Model()
        optimizer = torch.optim.AdamW(model.parameters(), 2e-3)
        durations, start, cpu = [], time.perf_counter(), time.process_time()
        for step in range(STEPS):
            began = time.perf_counter()
            tokens = windows.batch(step)
            loss = nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            durations.append(time.perf_counter() - began)
            if step % 40 == 0:
                anonymous, of_files = resident()
                print(f"step {step} loss {loss.item():.3f} own {anonymous:.0f} MB, file {of_files:.0f} MB", flush=True)
        print(f"loop {time.perf_counter() - start:.2f} s, CPU {time.process_time() - cpu:.2f} s, "
              f"median step {1e3 * statistics.median(durations):.1f} ms, "
              f"most memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()

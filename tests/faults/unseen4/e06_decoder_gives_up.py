"""One of four ranks is ended by its decoder: a corrupt record makes the library call os._exit in the middle of the
run.

What happens: the audio decoder of rank 2 treats a broken header as fatal, writes a line and leaves the process without
an exception, as C libraries do. The others stand in the all-reduce of that step until the connection is found closed.
Who causes it: rank 2 in step 240, by exit code 70.  What is lost: the rest of the run.
Right advice: look at rank 2's own last words, skip or replace the record; not the network, not ranks 0, 1 and 3, which
only report the closed connection.
REPORT_FAULT=0: the record is whole.
"""
import os
import statistics
import struct
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

CORRUPT = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH, SAMPLES = 400, 8, 800
MAGIC = b"SND1"


class Decoder:
    def fatal(self, message):
        sys.stderr.write(f"snddec: fatal: {message}\n")
        sys.stderr.flush()
        os._exit(70)

    def decode(self, blob):
        magic, count, label = struct.unpack_from("<4sII", blob)
        if magic != MAGIC:
            self.fatal(f"bad magic {magic!r}, stream is corrupt")
        return torch.frombuffer(bytearray(blob[12:12 + 2 * count]), dtype=torch.int16).float() / 32768, label


def record(rank, i):
    generator = torch.Generator().manual_seed(100_000 * rank + i)
    label = i % 8
    tone = torch.sin(torch.arange(SAMPLES) * (0.02 + 0.03 * label)) + 0.3 * torch.randn(SAMPLES, generator=generator)
    broken = CORRUPT and rank == 2 and i == 240 * BATCH + 3
    body = (tone.clamp(-1, 1) * 32767).to(torch.int16).numpy().tobytes()
    return struct.pack("<4sII", b"\0\0\0\0" if broken else MAGIC, SAMPLES, label) + body


class Spotter(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv1d(1, 32, 16, 4), nn.BatchNorm1d(32), nn.ReLU(),
            nn.Conv1d(32, 48, 8, 4), nn.BatchNorm1d(48), nn.ReLU(),
            nn.Conv1d(48, 64, 4, 2), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(64, 8))

    def forward(self, x):
        return self.layers(x[:, None])


def average_gradients(model, world):
    flat = nn.utils.parameters_to_vector([p.grad for p in model.parameters()])
    dist.all_reduce(flat)
    nn.utils.vector_to_parameters(flat / world, [p.grad for p in model.parameters()])


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model, decoder = Spotter(), Decoder()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    times = []
    begin = before = time.perf_counter()
    for step in range(STEPS):
        rows = [decoder.decode(record(rank, step * BATCH + i)) for i in range(BATCH)]
        wave, label = torch.stack([row[0] for row in rows]), torch.tensor([row[1] for row in rows])
        loss = nn.functional.cross_entropy(model(wave), label)
        optimizer.zero_grad()
        loss.backward()
        average_gradients(model, world)
        optimizer.step()
        now = time.perf_counter()
        times.append(now - before)
        before = now
        if rank == 0 and step % 30 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
        if step == 239:
            print(f"REPORT rank={rank} at=239 median_ms={1e3 * statistics.median(times):.1f}", flush=True)
    print(f"REPORT rank={rank} loop_s={time.perf_counter() - begin:.2f} steps={STEPS} "
          f"median_ms={1e3 * statistics.median(times):.1f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

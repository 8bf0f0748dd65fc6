"""Healthy: batches come in bursts from compressed blocks, and the prefetch bridges the gaps.

What looks like a fault: the worker hands out 24 batches in a moment, then is silent while it unpacks the next block for
several steps' time; the queue runs from full to nearly empty and back; the worker uses a good part of a core.
What is true: twelve batches lie ready when the worker begins to unpack, which is more than the steps that unpacking
takes. The training process waits for the first batch only.
Right advice: none; neither more workers nor another format would save time.
REPORT_FAULT=0: a block holds a single batch, so that the batches come evenly.
"""

import os
import statistics
import tempfile
import time
import zlib

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

BLOCKS = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH, PIXELS, CHANNELS, KINDS = 300, 64, 32, 8, 6
PER_BLOCK = 24 if BLOCKS else 1
SAMPLES = 24 * BATCH * 6


def write_blocks(path):
    """Satellite tiles: eight slowly varying channels of 16 bits, blocks of tiles compressed together."""
    draw = np.random.default_rng(9)
    coarse = draw.integers(200, 3000, (SAMPLES, CHANNELS, PIXELS // 4, PIXELS // 4), dtype=np.uint16)
    kinds, places = draw.integers(0, KINDS, SAMPLES).astype(np.uint8), []
    with open(path, "wb") as file:
        for begin in range(0, SAMPLES, PER_BLOCK * BATCH):
            part = slice(begin, begin + PER_BLOCK * BATCH)
            tiles = coarse[part].repeat(4, 2).repeat(4, 3)
            tiles += draw.integers(0, 16, tiles.shape, dtype=np.uint16)
            for tile, kind in zip(tiles, kinds[part]):
                tile[kind] += 1200
            packed = zlib.compress(tiles.tobytes() + kinds[part].tobytes(), 1)
            places.append((file.tell(), len(packed), len(tiles)))
            file.write(packed)
    return places


class Tiles(IterableDataset):
    def __init__(self, path, places):
        self.path, self.places = path, places

    def __iter__(self):
        draw = np.random.default_rng(torch.initial_seed() % 2**32)
        with open(self.path, "rb") as file:
            while True:
                for number in draw.permutation(len(self.places)):
                    place, size, count = self.places[number]
                    file.seek(place)
                    raw = zlib.decompress(file.read(size))
                    tiles = np.frombuffer(raw[:-count], np.uint16).reshape(count, CHANNELS, PIXELS, PIXELS)
                    kinds = np.frombuffer(raw[-count:], np.uint8)
                    tiles = np.log1p(tiles.astype(np.float32))
                    for chosen in np.split(draw.permutation(count), count // BATCH):
                        yield torch.from_numpy(tiles[chosen]), torch.from_numpy(kinds[chosen].astype(np.int64))


class Net(nn.Sequential):
    def __init__(self, width=32):
        super().__init__(
            nn.BatchNorm2d(CHANNELS), nn.Conv2d(CHANNELS, width, 3, 2, 1), nn.ReLU(),
            nn.Conv2d(width, width, 3, 1, 1), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, 2, 1), nn.ReLU(), nn.Conv2d(2 * width, 2 * width, 3, 1, 1), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * width, KINDS),
        )  # fmt: skip


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tiles.bin")
        places = write_blocks(path)
        loader = iter(DataLoader(Tiles(path, places), None, num_workers=1, prefetch_factor=12))
        waits, durations, start = [], [], time.perf_counter()
        for step in range(STEPS):
            began = time.perf_counter()
            tiles, kinds = next(loader)
            waits.append(time.perf_counter() - began)
            loss = nn.functional.cross_entropy(model(tiles), kinds)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            durations.append(time.perf_counter() - began)
            if step % 50 == 0:
                print(f"step {step} loss {loss.item():.3f}", flush=True)
        loop = time.perf_counter() - start
        del loader
    print(f"REPORT loop_s={loop:.2f} median_step_ms={1e3 * statistics.median(durations):.1f}")
    print(
        f"REPORT wait_share={sum(waits) / loop:.4f} first_wait_s={waits[0]:.2f} "
        f"longest_later_wait_ms={1e3 * max(waits[1:]):.1f} later_wait_s={sum(waits[1:]):.2f}"
    )


if __name__ == "__main__":
    main()

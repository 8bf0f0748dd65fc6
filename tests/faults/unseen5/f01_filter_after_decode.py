"""A streaming vision job decodes ten pictures for each that it keeps.

What happens: an IterableDataset fills a shuffle buffer of 160 pictures in one go. The quality filter (least height)
looks at the decoded picture, so that nine of ten are decoded for nothing; the loader has no workers. Every tenth step
waits for a refill of some 0.4 s, the steps between find the buffer full.
Who causes it: the order of decoding and filtering.  What is lost: the decodes of what is thrown away.
Right advice: filter on the header before decoding, or decode in loader workers; the model and the machine are sound,
and the long steps are no pauses of the process.
REPORT_FAULT=0: the filter reads the height in the header and decodes what it keeps.
"""
import os
import random
import statistics
import time
import zlib

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

DECODE_FIRST = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH, BUFFER, SIDE = 120, 16, 160, 64


class Pictures(IterableDataset):
    """Records of (height, packed bytes) in an endless order; one of ten is high enough."""

    def __init__(self):
        rng = np.random.default_rng(1)
        self.records = []
        for i in range(60):
            ramp = np.add.outer(np.arange(SIDE * 2), np.arange(SIDE * 2))[..., None]
            packed = zlib.compress((ramp + rng.integers(0, 9, (128, 128, 3))).astype(np.uint8).tobytes(), 1)
            self.records.append((512 if i % 10 == 0 else 180, packed, i % 7))

    @staticmethod
    def decode(packed):
        picture = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(2 * SIDE, 2 * SIDE, 3)
        return torch.from_numpy(picture[::2, ::2].astype(np.float32) / 255).permute(2, 0, 1)

    def __iter__(self):
        rng, position, buffer = random.Random(5), 0, []
        while True:
            while len(buffer) < BUFFER:
                height, packed, label = self.records[position % len(self.records)]
                position += 1
                if DECODE_FIRST:
                    picture = self.decode(packed)
                    if height >= 256:
                        buffer.append((picture, label))
                elif height >= 256:
                    buffer.append((self.decode(packed), label))
            rng.shuffle(buffer)
            while buffer:
                yield buffer.pop()


def network():
    layers, channels = [], 3
    for width in (24, 48, 64):
        layers += [nn.Conv2d(channels, width, 3, 2, 1), nn.BatchNorm2d(width), nn.ReLU(),
                   nn.Conv2d(width, width, 3, 1, 1), nn.ReLU()]
        channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 7))


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.02, momentum=0.9)
    durations, start, cpu = [], time.perf_counter(), time.process_time()
    batches = iter(DataLoader(Pictures(), batch_size=BATCH))
    for step in range(STEPS):
        began = time.perf_counter()
        pictures, labels = next(batches)
        loss = nn.functional.cross_entropy(model(pictures), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        durations.append(time.perf_counter() - began)
        if step % 40 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
    print(f"loop {time.perf_counter() - start:.2f} s, CPU {time.process_time() - cpu:.2f} s, "
          f"median step {1e3 * statistics.median(durations):.1f} ms, "
          f"longest {1e3 * max(durations):.0f} ms")


if __name__ == "__main__":
    main()

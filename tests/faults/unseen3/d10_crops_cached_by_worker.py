"""A persistent worker memoizes decoded crops by (index, crop offset), a key that hardly ever comes again.

What happens: the dataset's decode function has an unbounded functools.lru_cache.  As the random offset is one of its arguments,
every call is a miss that keeps another 120 KB for ever; with persistent_workers=True the worker is never replaced.  The
worker grows by some tens of MB per second, the training process does not.  One process, one worker.
Who causes it: the loader's worker.  What is lost: no time yet; on a real run the host's memory after an hour.
Right advice: cache before the random crop (or bound the cache by maxsize), or drop the cache; the training process does not leak.
REPORT_FAULT=0: maxsize=64.
"""
import functools
import os
import random
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

MAXSIZE = None if os.environ.get("REPORT_FAULT", "1") != "0" else 64
EPOCHS, LENGTH, BATCH = 12, 1024, 16


@functools.lru_cache(maxsize=MAXSIZE)
def decode(index, top, left):
    generator = torch.Generator().manual_seed(index)
    raw = torch.randint(0, 256, (3, 128, 128), generator=generator, dtype=torch.uint8)
    return raw[:, top:top + 100, left:left + 100].float().div_(255).contiguous()


class Pictures(Dataset):
    def __len__(self):
        return LENGTH

    def __getitem__(self, i):
        picture = decode(i, random.randrange(28), random.randrange(28))
        return nn.functional.avg_pool2d(picture, 2), i % 10


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    loader = DataLoader(Pictures(), batch_size=BATCH, shuffle=True, num_workers=1, persistent_workers=True)
    net = nn.Sequential(nn.Conv2d(3, 24, 3, 1, 1), nn.ReLU(), nn.Conv2d(24, 40, 3, 2, 1), nn.ReLU(), nn.Conv2d(40, 48, 3, 1, 1), nn.ReLU(),
                        nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(768, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, nesterov=True)
    begin, step = time.perf_counter(), 0
    for epoch in range(EPOCHS):
        for pictures, labels in loader:
            loss = nn.functional.cross_entropy(net(pictures), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 64 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.3f}", flush=True)
            step += 1
    total = time.perf_counter() - begin
    kept = step * BATCH * 3 * 100 * 100 * 4 / 2**20 if MAXSIZE is None else 64 * 0.12
    print(f"REPORT rank=0 loop_s={total:.2f} steps={step} cpu_s={time.thread_time():.2f} worker_keeps_at_most_mb={kept:.0f}", flush=True)
    print("REPORT rank=0 lost_s=0 share=0.0", flush=True)


if __name__ == "__main__":
    main()

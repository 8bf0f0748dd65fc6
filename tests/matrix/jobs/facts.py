"""What the jobs of the matrix share: data, a net whose evaluation takes known time, and one line of facts per rank.

The jobs know nothing of stepscope. The facts of a rank: ``steps`` as the loop or its framework counts them, ``losses`` a
hash over every bit of every training loss, ``validation_ms`` slept in evaluations between the first and the last
training forward.
"""

import hashlib
import json
import logging
import os
import sys
import time
import warnings

warnings.simplefilter("ignore")
logging.disable(logging.WARNING)

import torch  # noqa: E402
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402

torch.set_num_threads(1)
EVALUATION_S = 0.02


class Data(torch.utils.data.Dataset):
    """Samples are a function of their number: the same in every process."""

    def __init__(self, size=64):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        x = torch.randn(8, generator=g)
        return x, x.sum().reshape(1)


class Stream(torch.utils.data.IterableDataset):
    """The same samples, dealt out to the workers."""

    def __init__(self, size=64):
        self.data = Data(size)

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        first, stride = (info.id, info.num_workers) if info else (0, 1)
        return (self.data[i] for i in range(first, len(self.data), stride))


class Net(nn.Module):
    """A regression that notes each training loss (bitwise) and sleeps EVALUATION_S in each forward of an evaluation."""

    def __init__(self, width=16):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 1))
        self.losses = hashlib.sha256()
        self.trained, self.slept = 0, 0.0
        self.slept_first = self.slept_last = None

    def forward(self, x):
        if not self.training:
            time.sleep(EVALUATION_S)
            self.slept += EVALUATION_S
        return self.inner(x)

    def loss(self, x, y):
        """Mean squared error of a training batch, noted."""
        return self.note(F.mse_loss(self(x), y))

    def note(self, loss):
        if self.slept_first is None:
            self.slept_first = self.slept
        self.slept_last = self.slept
        self.trained += 1
        self.losses.update(float(loss.detach()).hex().encode())
        return loss

    def say(self, steps, **more):
        between = (self.slept_last or 0) - (self.slept_first or 0)
        say(steps, losses=self.losses.hexdigest(), batches=self.trained, validation_ms=round(1000 * between), **more)


def say(steps, key="", **more):
    """The facts of this rank, one line, under its rank or another key."""
    facts = {"steps": int(steps), **more}
    sys.stdout.write(f"\nJSON {json.dumps({key or 'rank' + os.environ.get('RANK', '0'): facts})}\n")
    sys.stdout.flush()


def leave():
    """gloo aborts now and then when ranks leave at once, with or without us: half a second helps."""
    import torch.distributed as dist

    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()
        time.sleep(0.5)

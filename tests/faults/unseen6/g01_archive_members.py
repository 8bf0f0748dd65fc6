"""The loader opens the archive of pictures anew for every picture.

What happens: the pictures lie in one zip file with 2,500 members. To stay safe with forked workers, __getitem__ opens
the file, reads one member and closes it again; each opening reads the whole directory of the archive. The one worker
of the loader delivers a batch more slowly than the model uses it up, so that the training process waits in every step.
Who causes it: the opening in __getitem__.  What is lost: what the worker needs for a batch beyond the step of the
model, in every step from the first on.
Right advice: open the archive once in each worker (more workers only hide it); the model, the core and the disk are
sound: the bytes come from the page cache.
REPORT_FAULT=0: each worker opens the archive once and keeps it.
"""

import os
import statistics
import tempfile
import time
import zipfile

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

REOPEN = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH, MEMBERS, SIDE = 150, 12, 2500, 32


def pack(path):
    rng = np.random.default_rng(0)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for i in range(MEMBERS):
            archive.writestr(f"train/{i:05d}.raw", rng.integers(0, 256, (3, SIDE, SIDE), np.uint8).tobytes())


class Pictures(Dataset):
    def __init__(self, path):
        self.path, self.archive = path, None

    def __len__(self):
        return STEPS * BATCH

    def __getitem__(self, i):
        name = f"train/{i % MEMBERS:05d}.raw"
        if REOPEN:
            with zipfile.ZipFile(self.path) as archive:
                raw = archive.read(name)
        else:
            if self.archive is None:
                self.archive = zipfile.ZipFile(self.path)
            raw = self.archive.read(name)
        picture = np.frombuffer(raw, np.uint8).reshape(3, SIDE, SIDE)
        if i % 2:
            picture = picture[:, :, ::-1]
        return torch.from_numpy(picture.astype(np.float32) / 127.5 - 1), i % 10


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.second = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for _ in range(2))

    def forward(self, x):
        y = self.norms[0](self.first(x)).relu()
        return (x + self.norms[1](self.second(y))).relu()


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "pictures.zip")
        pack(path)
        width = 64
        model = nn.Sequential(
            nn.Conv2d(3, width, 3, 2, 1),
            *(Residual(width) for _ in range(3)),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(width, 10),
        )
        optimizer = torch.optim.SGD(model.parameters(), 0.02, momentum=0.9)
        loader = DataLoader(Pictures(path), batch_size=BATCH, num_workers=1)
        durations, waits, start, cpu = [], [], time.perf_counter(), time.process_time()
        began = start
        for step, (pictures, labels) in enumerate(loader):
            waits.append(time.perf_counter() - began)
            loss = nn.functional.cross_entropy(model(pictures), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            now = time.perf_counter()
            durations.append(now - began)
            began = now
            if step % 40 == 0:
                print(f"step {step} loss {loss.item():.3f}", flush=True)
        loop = time.perf_counter() - start
        print(
            f"loop {loop:.2f} s, CPU {time.process_time() - cpu:.2f} s, "
            f"median step {1e3 * statistics.median(durations):.1f} ms, waited for batches {100 * sum(waits) / loop:.1f} % "
            f"({waits[0]:.2f} s for the first)"
        )


if __name__ == "__main__":
    main()

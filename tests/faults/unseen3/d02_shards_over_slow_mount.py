"""Rank 1 streams its tar shards through a mount whose every read has a latency.

What happens: both ranks iterate over tar shards (an IterableDataset, one shard after the other, as webdataset does).
Rank 1's node has the bucket mounted without read-ahead, so each read() of its file object costs a few milliseconds;
tarfile makes several reads per sample.  Rank 0 reads from its local disk and waits in the all-reduce of backward.
Who causes it: rank 1, in its input.  What is lost: a third to two thirds of the loop, on both ranks.
Right advice: buffer rank 1's reads (larger blocks, read-ahead, a local copy of the shards) or read in workers; its compute is
as fast as rank 0's.
REPORT_FAULT=0: both ranks read from the local disk.
"""
import io
import os
import tarfile
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset

FAULT = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH = 300, 16


class Mounted(io.RawIOBase):
    """A file of a mounted bucket: each request goes over the network."""

    def __init__(self, path, latency):
        self.file, self.latency = open(path, "rb", buffering=0), latency

    def read(self, n=-1):
        if self.latency:
            time.sleep(self.latency)
        return self.file.read(n)

    def seek(self, offset, whence=0):
        return self.file.seek(offset, whence)

    def tell(self):
        return self.file.tell()

    def seekable(self):
        return True

    def readable(self):
        return True


def write_shards(folder, seed, shards=6, samples=96):
    generator = torch.Generator().manual_seed(seed)
    paths = []
    for s in range(shards):
        paths.append(os.path.join(folder, f"shard-{s:04d}.tar"))
        with tarfile.open(paths[-1], "w") as tar:
            for i in range(samples):
                raw = torch.randint(0, 256, (3, 32, 32), generator=generator, dtype=torch.uint8).numpy().tobytes()
                info = tarfile.TarInfo(f"{s:04d}{i:05d}.{i % 10}.rgb")
                info.size = len(raw)
                tar.addfile(info, io.BytesIO(raw))
    return paths


class Shards(IterableDataset):
    def __init__(self, paths, latency):
        self.paths, self.latency, self.seconds = paths, latency, 0.0

    def __iter__(self):
        while True:
            for path in self.paths:
                with tarfile.open(fileobj=Mounted(path, self.latency), mode="r:") as tar:
                    while True:
                        t0 = time.perf_counter()
                        member = tar.next()
                        if member is None:
                            break
                        raw = tar.extractfile(member).read()
                        image = torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(3, 32, 32).float().div_(255)
                        self.seconds += time.perf_counter() - t0
                        yield image, int(member.name.split(".")[1])


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        layers, width = [], 3
        for out, stride in ((24, 1), (40, 2), (64, 1), (96, 2)):
            layers += [nn.Conv2d(width, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.SiLU()]
            width = out
        self.body, self.head = nn.Sequential(*layers), nn.Linear(width, 10)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    paths = write_shards(tempfile.mkdtemp(), rank)
    data = Shards(paths, 0.0012 if FAULT and rank == 1 else 0.0)
    loader = iter(DataLoader(data, batch_size=BATCH))
    model = DDP(Classifier())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    dist.barrier()
    begin = time.perf_counter()
    for step in range(STEPS):
        images, labels = next(loader)
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 40 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
    total = time.perf_counter() - begin
    print(f"REPORT rank={rank} loop_s={total:.2f} steps={STEPS} cpu_s={time.thread_time():.2f}", flush=True)
    print(f"REPORT rank={rank} lost_s={data.seconds:.2f} share={data.seconds / total:.3f} (time in reading)", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

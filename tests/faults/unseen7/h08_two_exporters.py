"""Five records whose number the index spells differently are looked for from the start of the file.

What happens: a classifier of sensor windows is trained on two ranks, each with a half of a file of JSON lines. An index
leads from the number of a record to its place. A second exporter, used for the last site only, wrote the numbers
without leading zeros; the index holds them so, and five records are not found. The reader then searches the whole file
line by line, parsing each line, until the number fits. All five lie in the half of rank 1.
Who causes it: the fallback in __getitem__ on rank 1.  What is lost: some 0.1 s or more whenever one of the five is
drawn, about once in six batches, at no regular distance; rank 0 waits for it in its all-reduce.
Right advice: bring the numbers of the index into one form (int) or write the index anew; make the fallback say so.
Neither the link nor the core of rank 1 is slow, and more bandwidth or fewer gradients would not help.
REPORT_FAULT=0: the index is read with int() as the key.
"""

import json
import os
import statistics
import tempfile
import time

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, RandomSampler, Subset

FAULT = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH, RECORDS, LENGTH, CLASSES = 330, 64, 4000, 96, 12
LATE = (3121, 3340, 3502, 3777, 3938)


def export(folder):
    """The file of both exporters and its index."""
    generator = np.random.default_rng(5)
    waves = generator.normal(size=(CLASSES, LENGTH)).cumsum(1)
    with open(os.path.join(folder, "windows.jsonl"), "wb") as out, open(os.path.join(folder, "windows.idx"), "w") as idx:
        for number in range(RECORDS):
            label = int(generator.integers(CLASSES))
            values = waves[label] + generator.normal(size=LENGTH)
            name = str(number) if number in LATE else f"{number:06d}"
            idx.write(f"{name} {out.tell()}\n")
            record = {"number": name, "label": label, "values": [round(float(v), 4) for v in values]}
            out.write(json.dumps(record).encode() + b"\n")


class Windows(Dataset):
    def __init__(self, folder):
        self.file = open(os.path.join(folder, "windows.jsonl"), "rb")
        self.places, self.searched, self.searches = {}, 0.0, 0
        with open(os.path.join(folder, "windows.idx")) as idx:
            for line in idx:
                name, place = line.split()
                self.places[name if FAULT else f"{int(name):06d}"] = int(place)

    def __len__(self):
        return RECORDS

    def record(self, number):
        place = self.places.get(f"{number:06d}")
        if place is not None:
            self.file.seek(place)
            return json.loads(self.file.readline())
        began = time.perf_counter()
        self.file.seek(0)
        for line in self.file:
            found = json.loads(line)
            if int(found["number"]) == number:
                self.searched += time.perf_counter() - began
                self.searches += 1
                return found
        raise KeyError(number)

    def __getitem__(self, number):
        record = self.record(number)
        return torch.tensor(record["values"])[None], record["label"]


class Net(nn.Module):
    def __init__(self, width=80):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(1, width, 9, padding=4),
            nn.ReLU(),
            nn.Conv1d(width, width, 7, padding=3, stride=2),
            nn.ReLU(),
            nn.Conv1d(width, width, 7, padding=3),
            nn.ReLU(),
            nn.AdaptiveAvgPool1d(4),
            nn.Flatten(),
            nn.Linear(4 * width, CLASSES),
        )

    def forward(self, x):
        return self.body(x)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = DDP(Net())
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    torch.manual_seed(20 + rank)
    with tempfile.TemporaryDirectory() as folder:
        export(folder)
        windows = Windows(folder)
        half = Subset(windows, range(rank * RECORDS // world, (rank + 1) * RECORDS // world))
        loader = DataLoader(half, BATCH, sampler=RandomSampler(half, num_samples=STEPS * BATCH))
        dist.barrier()
        durations, start = [], time.perf_counter()
        began = start
        for step, (x, y) in enumerate(loader):
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            durations.append(time.perf_counter() - began)
            began = time.perf_counter()
            if rank == 0 and step % 60 == 0:
                print(f"step {step} loss {loss.item():.3f}", flush=True)
        loop = time.perf_counter() - start
        print(f"REPORT rank={rank} loop_s={loop:.2f} median_ms={1e3 * statistics.median(durations):.1f} "
              f"longest_ms={1e3 * max(durations):.0f} searches={windows.searches} searched_s={windows.searched:.2f} "
              f"share={windows.searched / loop:.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

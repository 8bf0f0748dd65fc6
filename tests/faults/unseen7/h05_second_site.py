"""The recordings of the second site come from another program and lie in memory column by column.

What happens: two ranks train on spectrograms, each on the file of one site. The first site's file was written by numpy
row by row. The second one's was exported by a program that stores arrays in column order; the .npy header says so,
np.load keeps it, and all shapes and values are right. One sample then is 12288 numbers, each 8 KiB from the next: every
number costs a line of the cache and a page, and normalizing walks through them several times.
Who causes it: the layout of rank 1's array, met in __getitem__ in rank 1's own process (no workers).
What is lost: rank 1's time for fetching in each step; rank 0 waits for it in the all_reduce.
Right advice: np.ascontiguousarray once after loading (or rewrite the file); rank 1's core, network and model are sound,
and both sites have the same number of samples of the same size.
REPORT_FAULT=0: both files in row order.
"""

import os
import statistics
import tempfile
import time

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset

COLUMNS = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH, SAMPLES, BANDS, FRAMES, KINDS = 240, 32, 2048, 96, 128, 12


def export(path, site):
    """What each site delivers: spectrograms in decibels, with two tones per kind."""
    draw = np.random.default_rng(20 + site)
    kinds = draw.integers(0, KINDS, SAMPLES)
    spectra = draw.standard_normal((SAMPLES, BANDS, FRAMES), dtype=np.float32) * 6 - 60
    for number, kind in enumerate(kinds):
        begin = draw.integers(0, FRAMES - 60)
        spectra[number, 7 * kind : 7 * kind + 3, begin : begin + 60] += 14
        spectra[number, (5 * kind + 40) % BANDS, begin : begin + 30] += 9
    np.save(path, np.asfortranarray(spectra) if COLUMNS and site == 1 else spectra)
    return kinds


class Site(Dataset):
    def __init__(self, path, kinds):
        self.spectra, self.kinds = np.load(path), kinds

    def __len__(self):
        return len(self.spectra)

    def __getitem__(self, index):
        spectrum = self.spectra[index]
        low, high = spectrum.min(), spectrum.max()
        if not np.isfinite(spectrum).all() or low == high:
            raise ValueError(f"recording {index} is empty or damaged")
        level = spectrum.mean(axis=1, keepdims=True)
        spectrum = (spectrum - level) / (spectrum.std() + 1e-3)
        begin = np.random.randint(0, FRAMES - 16)
        spectrum[:, begin : begin + 16] = 0
        return np.ascontiguousarray(spectrum), int(self.kinds[index])


class Listener(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.front = nn.Sequential(
            nn.Conv1d(BANDS, 2 * width, 5, 2, 2), nn.BatchNorm1d(2 * width), nn.ReLU(),
            nn.Conv1d(2 * width, 3 * width, 5, 1, 2), nn.BatchNorm1d(3 * width), nn.ReLU(),
        )  # fmt: skip
        self.memory = nn.GRU(3 * width, 2 * width, batch_first=True)
        self.head = nn.Linear(2 * width, KINDS)

    def forward(self, x):
        states, _ = self.memory(self.front(x).transpose(1, 2))
        return self.head(states.mean(1))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = DDP(Listener())
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    torch.manual_seed(rank + 1)
    np.random.seed(rank + 1)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, f"site{rank}.npy")
        site = Site(path, export(path, rank))
    loader = DataLoader(site, BATCH, shuffle=True, drop_last=True)
    dist.barrier()
    fetched, durations, step, start = 0.0, [], 0, time.perf_counter()
    began = start
    while step < STEPS:
        for x, kinds in loader:
            fetched += time.perf_counter() - began
            loss = nn.functional.cross_entropy(model(x), kinds)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            durations.append(time.perf_counter() - began)
            if rank == 0 and step % 50 == 0:
                print(f"step {step} loss {loss.item():.3f}", flush=True)
            step, began = step + 1, time.perf_counter()
            if step == STEPS:
                break
    loop = time.perf_counter() - start
    both = [torch.zeros(1) for _ in range(dist.get_world_size())]
    dist.all_gather(both, torch.tensor([fetched]))
    print(
        f"REPORT rank={rank} loop_s={loop:.2f} median_step_ms={1e3 * statistics.median(durations):.1f} "
        f"fetch_s={fetched:.2f} lost_share={(max(both) - min(both)).item() / loop:.3f}",
        flush=True,
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

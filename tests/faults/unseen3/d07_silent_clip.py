"""A clip of pure silence on rank 1 becomes NaN when it is normalized, and so do all weights.

What happens: spectra are divided by their peak before the logarithm.  One clip of rank 1's part is all zeros, its peak is 0,
and the batch that holds it (step 110) gives NaN on rank 1; the averaged gradient carries it to both ranks in the
same step.  The job goes on to its end at the usual speed with NaN everywhere.
Who causes it: rank 1's data in step 110.  What is lost: no time, but all the training from there.
Right advice: clamp_min(eps) in the division (or drop silent clips), stop or skip on a loss that is not finite,
go back to the last good checkpoint; neither learning rate nor model is to blame.
REPORT_FAULT=0: that clip holds noise, too.
"""
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset

FAULT = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH, CLIPS = 480, 16, 8000


class Clips(Dataset):
    def __init__(self, rank):
        self.rank = rank
        self.window = torch.hann_window(256)

    def __len__(self):
        return CLIPS

    def __getitem__(self, i):
        generator = torch.Generator().manual_seed(i * 2 + self.rank)
        pitch = i % 8
        t = torch.arange(2048) / 2048
        wave = torch.sin(2 * torch.pi * (40 + 30 * pitch) * t) + 0.5 * torch.randn(2048, generator=generator)
        if FAULT and self.rank == 1 and i == 110 * BATCH + 5:
            wave = torch.zeros(2048)
        spectrum = torch.stft(wave, 256, 128, window=self.window, return_complex=True).abs()
        return (spectrum / spectrum.max() + 1e-4).log() / 4 + 1, pitch


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv1d(129, 256, 5, padding=2), nn.ReLU(), nn.Conv1d(256, 256, 5, padding=2), nn.ReLU(),
                                  nn.Conv1d(256, 256, 3, padding=1), nn.ReLU())
        self.head = nn.Linear(256, 8)

    def forward(self, x):
        return self.head(self.body(x).mean(2))


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(Tagger())
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)
    loader = iter(DataLoader(Clips(rank), batch_size=BATCH))
    dist.barrier()
    begin, bad = time.perf_counter(), None
    for step in range(STEPS):
        spectra, labels = next(loader)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(spectra), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        if bad is None and not torch.isfinite(loss):
            bad = step
        if rank == 0 and step % 40 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
    total = time.perf_counter() - begin
    print(f"REPORT rank={rank} loop_s={total:.2f} steps={STEPS} cpu_s={time.thread_time():.2f} first_nan={bad}", flush=True)
    print(f"REPORT rank={rank} lost_s=0 share=0.0", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

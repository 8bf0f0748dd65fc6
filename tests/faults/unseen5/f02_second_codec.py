"""From step 80 on the shard of rank 1 comes in a codec that Python decodes.

What happens: a speech job reads clips in the training process. Rank 0's list holds raw PCM throughout; rank 1's list
goes on, after 80 batches, with clips as delta codes, which a loop in Python turns into samples. From there on rank 1
comes late out of its loader in every step and rank 0 waits for it in the all-reduce.
Who causes it: the decoder of the second half of rank 1's list.  What is lost: the decoding, on both ranks.
Right advice: transcode these files or decode with numpy/in workers; rank 1's core is not slow and the clips are of one
length on both ranks.
REPORT_FAULT=0: the delta codes are summed by numpy.
"""
import os
import statistics
import time

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset

BY_LOOP = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH, SAMPLES, CHANGE = 240, 8, 16000, 80


class Clips(Dataset):
    def __init__(self, rank):
        rng = np.random.default_rng(rank)
        self.pcm = [np.cumsum(rng.integers(-40, 41, SAMPLES)).astype(np.int16) for _ in range(12)]
        self.codes = [np.diff(clip, prepend=np.int16(0)).astype(np.int16).tobytes() for clip in self.pcm]
        self.first_coded = CHANGE * BATCH if rank == 1 else STEPS * BATCH

    def __len__(self):
        return STEPS * BATCH

    def __getitem__(self, i):
        if i < self.first_coded:
            clip = self.pcm[i % 12]
        elif BY_LOOP:
            clip, level = np.empty(SAMPLES, np.int16), 0
            for k, delta in enumerate(memoryview(self.codes[i % 12]).cast("h")):
                level += delta
                clip[k] = level
        else:
            clip = np.cumsum(np.frombuffer(self.codes[i % 12], np.int16)).astype(np.int16)
        return torch.from_numpy(clip.astype(np.float32) / 8192), i % 10


class Recogniser(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.window = torch.hann_window(400)
        self.front = nn.Conv1d(201, width, 5, 2, 2)
        self.blocks = nn.ModuleList(nn.Conv1d(width, width, 5, 1, 2) for _ in range(4))
        self.head = nn.Linear(width, 10)

    def forward(self, clips):
        spectrum = torch.stft(clips, 400, 160, window=self.window, return_complex=True).abs().clamp(1e-5).log()
        x = self.front(spectrum).relu()
        for block in self.blocks:
            x = x + block(x).relu()
        return self.head(x.mean(2))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = DDP(Recogniser())
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    durations, start, cpu = [], time.perf_counter(), time.process_time()
    began = start
    for step, (clips, labels) in enumerate(DataLoader(Clips(rank), batch_size=BATCH)):
        loss = nn.functional.cross_entropy(model(clips), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        now = time.perf_counter()
        durations.append(now - began)
        began = now
        if rank == 0 and step % 40 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
    print(f"rank {rank}: loop {time.perf_counter() - start:.2f} s, CPU {time.process_time() - cpu:.2f} s, "
          f"median step {1e3 * statistics.median(durations[:CHANGE]):.1f} ms "
          f"before, {1e3 * statistics.median(durations[CHANGE:]):.1f} ms after step {CHANGE}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""A loader worker of rank 1 is forked while a thread of rank 1 holds a lock; the worker waits for that lock for ever.

What happens: rank 1 (the one that runs the node's statistics thread) has a thread that takes the decoder's lock for a
moment again and again.  The DataLoader forks new workers at each epoch; in the fourth epoch (step 120) the lock is held at
that instant, the child inherits it locked and no thread that would release it.  Rank 1 waits for its batch, rank 0 in the
all-reduce of backward.  After 20 s the DataLoader of rank 1 raises its timeout.
Who causes it: rank 1, in its input.  What is lost: all from step 120 on.
Right advice: spawn or forkserver workers, persistent workers started before the thread, or no locks across a fork; neither
the link nor rank 0 is at fault.
REPORT_FAULT=0: the thread is not started.
"""
import os
import threading
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset

FAULT = os.environ.get("REPORT_FAULT", "1") != "0"
EPOCHS, PER_EPOCH, BATCH = 8, 40, 32
LOCK = threading.Lock()                 # guards the decoder's table, as a C library's or a logging handler's lock would
EPOCH = {"n": 0}


def statistics_thread():
    while True:
        with LOCK:
            time.sleep(0.5 if EPOCH["n"] >= 3 else 0.0)       # the table has grown: walking it takes longer now
        time.sleep(0.01)


class Audio(Dataset):
    def __init__(self, seed):
        self.waves = torch.randn(256, 2048, generator=torch.Generator().manual_seed(seed))
        self.window = torch.hann_window(256)

    def __len__(self):
        return PER_EPOCH * BATCH

    def __getitem__(self, i):
        with LOCK:
            wave = self.waves[i % 256]
        return torch.stft(wave, 256, 128, window=self.window, return_complex=True).abs().log1p(), i % 8


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Conv1d(129, 192, 5, padding=2), nn.ReLU(), nn.Conv1d(192, 192, 5, padding=2), nn.ReLU(),
                              nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Linear(768, 8)))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4)
    loader = DataLoader(Audio(rank), batch_size=BATCH, num_workers=1, timeout=20 if rank == 1 else 0,
                        multiprocessing_context="fork")
    if rank == 1 and FAULT:
        threading.Thread(target=statistics_thread, daemon=True).start()
    dist.barrier()
    begin, step = time.perf_counter(), 0
    try:
        for epoch in range(EPOCHS):
            EPOCH["n"] = epoch
            if epoch == 3 and rank == 1 and FAULT:
                while not LOCK.locked():                      # with bad luck made certain
                    time.sleep(0.001)
                time.sleep(0.05)
            for spectra, labels in loader:
                loss = nn.functional.cross_entropy(model(spectra), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if rank == 0 and step % 40 == 0:
                    print(f"epoch {epoch} step {step} loss {loss.item():.3f}", flush=True)
                step += 1
    finally:
        total = time.perf_counter() - begin
        print(f"REPORT rank={rank} loop_s={total:.2f} steps={step} cpu_s={time.thread_time():.2f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

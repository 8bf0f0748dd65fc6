"""Rank 0 stands in a barrier with the cache lock in its hands; rank 1 wants the lock before it comes to the barrier.

What happens: in step 150 the job renews its packed vocabulary. Rank 0 takes the file lock of the cache folder, writes
and waits in a barrier for the others inside the lock. Rank 1 takes the lock too, to read, and stays in flock().
After the 15 s of the group rank 0 raises.
Who causes it: the barrier inside the lock (rank 0's code); rank 1 is the one that does not come to the barrier.
What is lost: everything from step 150 on, 15 s here and up to the timeout in general.
Right advice: leave the lock before the barrier; look at rank 1's stack in flock() and at who holds the lock. The link
and the machines are sound.
REPORT_FAULT=0: the barrier comes after the lock.
"""
import datetime
import fcntl
import os
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

INSIDE = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH, LENGTH, VOCAB, WIDTH, RENEW = 400, 8, 32, 2000, 128, 150
CACHE = os.path.join(tempfile.gettempdir(), f"vocabulary-{os.environ.get('MASTER_PORT', '0')}")


class Locked:
    def __enter__(self):
        self.file = open(CACHE + ".lock", "w")
        fcntl.flock(self.file, fcntl.LOCK_EX)

    def __exit__(self, *_):
        self.file.close()


def renew(rank):
    if rank == 0:
        with Locked():
            torch.save(torch.randperm(VOCAB), CACHE)
            if INSIDE:
                dist.barrier()
    else:
        time.sleep(0.2)  # the writer comes first
        with Locked():
            pass
        if INSIDE:
            dist.barrier()
    if not INSIDE:
        dist.barrier()
    return torch.load(CACHE)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, WIDTH)
        self.rnn = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.head = nn.Linear(WIDTH, 12)

    def forward(self, tokens):
        return self.head(self.rnn(self.embedding(tokens))[0])


def main():
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=15))
    rank = dist.get_rank()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = DDP(Tagger())
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    torch.manual_seed(rank + 1)
    order, durations, start, cpu = torch.arange(VOCAB), [], time.perf_counter(), time.process_time()
    for step in range(STEPS):
        began = time.perf_counter()
        if step == RENEW:
            order = renew(rank)
        tokens = order[torch.randint(0, VOCAB, (BATCH, LENGTH))]
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), (tokens % 12).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        durations.append(time.perf_counter() - began)
        if rank == 0 and step % 50 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
    print(f"rank {rank}: loop {time.perf_counter() - start:.2f} s, CPU {time.process_time() - cpu:.2f} s, "
          f"median step {1e3 * statistics.median(durations):.1f} ms")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

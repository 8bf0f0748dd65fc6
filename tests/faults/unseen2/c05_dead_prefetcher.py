"""The read-ahead thread of rank 1 dies of a truncated record; the training thread waits for its queue for ever.

What happens: each rank has one thread that decodes records into a queue.Queue.  Rank 1's record for batch 150 is
short, reshape raises ValueError in the thread, Python prints the traceback and the thread is gone.  The main thread
takes what is left in the queue and then stands in queue.get() without a timeout; rank 0 stands in the all-reduce of
that step until the group's timeout of 45 s ends the job.
Who causes it: rank 1, at queue.get() (its reader thread is dead).  What is lost: everything from step 150 on.
Right advice: pass exceptions of the reader on (put them into the queue, get(timeout=...)), check the record; the
network and rank 0 are innocent.
REPORT_FAULT=0: the record is whole.
"""
import os
import queue
import threading
import time
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS, BATCH, LENGTH, WIDTH = 190, 36, 40, 48
TRUNCATED = {(1, 150)} if os.environ.get("REPORT_FAULT", "1") != "0" else set()


class ReadAhead:
    def __init__(self, rank, depth=3):
        self.rank = rank
        self.queue = queue.Queue(maxsize=depth)
        threading.Thread(target=self._read, name="reader", daemon=True).start()

    def _record(self, index):
        raw = np.random.default_rng([self.rank, index]).standard_normal(BATCH * LENGTH * WIDTH, dtype=np.float32).tobytes()
        return raw[: len(raw) // 3 * 2 - 4] if (self.rank, index) in TRUNCATED else raw

    def _read(self):
        for index in range(STEPS):
            values = np.frombuffer(self._record(index), dtype=np.float32)
            self.queue.put(torch.from_numpy(values.reshape(BATCH, LENGTH, WIDTH).copy()))

    def __iter__(self):
        for _ in range(STEPS):
            yield self.queue.get()


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(WIDTH, 112, num_layers=2, batch_first=True)
        self.out = nn.Linear(112, WIDTH)

    def forward(self, x):
        return self.out(self.rnn(x)[0])


def train(model, optimizer, source, rank, begin):
    for step, x in enumerate(source):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x[:, :-1]), x[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 30 == 0 or step == 149:
            print(f"REPORT rank={rank} step={step} elapsed_s={time.perf_counter() - begin:.2f}", flush=True)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=45))
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(Tagger())
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    begin = time.perf_counter()
    try:
        train(model, optimizer, ReadAhead(rank), rank, begin)
    finally:
        print(f"REPORT rank={rank} loop_s={time.perf_counter() - begin:.2f} cpu_s={time.thread_time():.2f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

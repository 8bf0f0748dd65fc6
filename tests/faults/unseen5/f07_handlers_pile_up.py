"""Each epoch of rank 0 adds another handler to the logger; each record is laid out and synced once per handler.

What happens: set_up_log() runs at the begin of every epoch of 20 steps and adds a handler to the same logger. A record
holds statistics of all layers; a handler lays it out as JSON and syncs its file. In epoch n rank 0 does that n times in
every step after the optimizer, while rank 1 waits in the next all-reduce.
Who causes it: the logger of rank 0.  What is lost: the records above the first, on both ranks; it grows by the epoch.
Right advice: set up the log once (or remove the old handler), write in the background; the model, the data and rank
0's core do not get slower.
REPORT_FAULT=0: set_up_log() leaves a logger that has a handler alone.
"""
import json
import logging
import os
import shutil
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

PILE = os.environ.get("REPORT_FAULT", "1") != "0"
EPOCHS, EPOCH, BATCH, FEATURES = 10, 20, 128, 256
log = logging.getLogger("train")


class SyncedJson(logging.Handler):
    def __init__(self, path):
        super().__init__()
        self.file = open(path, "a")

    def emit(self, record):
        text = json.dumps(record.msg, indent=1, sort_keys=True)
        self.file.write(text + "\n")
        self.file.flush()
        os.fsync(self.file.fileno())


def set_up_log(folder):
    log.setLevel(logging.INFO)
    log.propagate = False
    if PILE or not log.handlers:
        log.addHandler(SyncedJson(os.path.join(folder, "train.jsonl")))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    layers = [nn.Linear(FEATURES, 384), nn.GELU()]
    for _ in range(4):
        layers += [nn.Linear(384, 384), nn.GELU()]
    model = DDP(nn.Sequential(*layers, nn.Linear(384, 10)))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    folder = tempfile.mkdtemp()
    torch.manual_seed(rank + 1)
    durations, start, cpu = [], time.perf_counter(), time.process_time()
    for epoch in range(EPOCHS):
        if rank == 0:
            set_up_log(folder)
        for i in range(EPOCH):
            began = time.perf_counter()
            x = torch.randn(BATCH, FEATURES)
            loss = nn.functional.cross_entropy(model(x), x[:, :10].argmax(1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if rank == 0:
                log.info({name: p.grad.flatten()[:100].tolist() for name, p in model.named_parameters()})
            durations.append(time.perf_counter() - began)
        if rank == 0 and epoch % 3 == 0:
            print(f"epoch {epoch} loss {loss.item():.3f}", flush=True)
    print(f"rank {rank}: loop {time.perf_counter() - start:.2f} s, CPU {time.process_time() - cpu:.2f} s, "
          f"median step {1e3 * statistics.median(durations[:EPOCH]):.1f} ms in the first epoch, "
          f"{1e3 * statistics.median(durations[-EPOCH:]):.1f} ms in the last")
    dist.barrier()
    shutil.rmtree(folder, ignore_errors=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

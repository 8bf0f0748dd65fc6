"""An asynchronous distributed checkpoint whose result is waited for at once.

What happens: every 8 steps both ranks call torch.distributed.checkpoint.async_save() and, to be safe, .result() on
the next line. The state is copied, planned, written and synced while both ranks stand still, as a plain save would
have it, with the copy on top.
Who causes it: the .result() right after async_save(), on both ranks alike.  What is lost: the pauses after
steps 7, 15, 23 ...
Right advice: wait for the last save only before the next one, or save less often; no rank is slow, the disk is as fast
as ever.
REPORT_FAULT=0: one save, after the last step.
"""
import os
import shutil
import statistics
import tempfile
import time
import warnings

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.nn.parallel import DistributedDataParallel as DDP

AWAITED = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, EVERY, BATCH, LENGTH, VOCAB, WIDTH = 120, 8, 6, 40, 12000, 160
warnings.filterwarnings("ignore")


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, WIDTH)
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, 0.0, batch_first=True)
                                    for _ in range(3))
        self.head = nn.Linear(WIDTH, 64)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def save(model, optimizer, folder, step):
    weights, moments = get_state_dict(model, optimizer)
    future = dcp.async_save({"model": weights, "optimizer": moments},
                            checkpoint_id=os.path.join(folder, f"step{step}"))
    future.result()
    if dist.get_rank() == 0:
        shutil.rmtree(os.path.join(folder, f"step{step - EVERY}"), ignore_errors=True)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = DDP(Model())
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    names = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(names)
    torch.manual_seed(rank + 1)
    durations, saving, start, cpu = [], 0.0, time.perf_counter(), time.process_time()
    for step in range(STEPS):
        began = time.perf_counter()
        tokens = torch.randint(0, VOCAB, (BATCH, LENGTH))
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), (tokens % 64).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        durations.append(time.perf_counter() - began)
        if rank == 0 and step % 30 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
        if step % EVERY == EVERY - 1 and (AWAITED or step == STEPS - 1):
            began = time.perf_counter()
            save(model, optimizer, names[0], step)
            saving += time.perf_counter() - began
    print(f"rank {rank}: loop {time.perf_counter() - start:.2f} s, CPU {time.process_time() - cpu:.2f} s, "
          f"median step {1e3 * statistics.median(durations):.1f} ms, saving {saving:.2f} s")
    dist.barrier()
    if rank == 0:
        shutil.rmtree(names[0], ignore_errors=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

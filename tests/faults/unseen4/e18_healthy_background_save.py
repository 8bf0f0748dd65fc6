"""Healthy: checkpoints that a thread of rank 0 writes while the training goes on.

What looks like a fault: after every 30th step rank 0 copies its state (a few milliseconds) and a thread writes 14 MB
to disk.
What is true: the copy is short, the write leaves the GIL and rank 1 does not wait for it; what it costs is within the
noise.
Right advice: none.
REPORT_FAULT=0: no checkpoints.
"""
import os
import shutil
import statistics
import tempfile
import threading
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

SAVES = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, EVERY, BATCH, WIDTH = 260, 30, 16, 384


class BackgroundSaver:
    def __init__(self, folder):
        self.folder, self.thread, self.copying = folder, None, 0.0

    def save(self, step, model, optimizer):
        begin = time.perf_counter()
        self.wait()
        state = {"model": {key: value.clone() for key, value in model.state_dict().items()},
                 "moments": [{key: value.clone() for key, value in p.items()} for p in optimizer.state.values()]}
        self.thread = threading.Thread(target=self.write, args=(state, step))
        self.thread.start()
        self.copying += time.perf_counter() - begin

    def write(self, state, step):
        part = os.path.join(self.folder, "part")
        torch.save(state, part)
        os.replace(part, os.path.join(self.folder, f"last{step // EVERY % 2}.pt"))

    def wait(self):
        if self.thread:
            self.thread.join()


class Tabular(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter = nn.Linear(40, WIDTH)
        self.blocks = nn.ModuleList([nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(),
                                                   nn.Linear(2 * WIDTH, WIDTH)) for _ in range(2)])
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, x):
        x = self.enter(x)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)[..., 0]


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(Tabular())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    saver = BackgroundSaver(tempfile.mkdtemp()) if rank == 0 and SAVES else None
    generator = torch.Generator().manual_seed(rank)
    times = []
    dist.barrier()
    begin = before = time.perf_counter()
    for step in range(STEPS):
        x = torch.randn(BATCH, 8, 40, generator=generator)
        target = x[..., :5].prod(-1) + x[..., 7].abs()
        loss = nn.functional.huber_loss(model(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if saver and (step + 1) % EVERY == 0:
            saver.save(step, model.module, optimizer)
        now = time.perf_counter()
        times.append(now - before)
        before = now
        if rank == 0 and step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    total = time.perf_counter() - begin
    copying = saver.copying if saver else 0.0
    print(f"REPORT rank={rank} loop_s={total:.2f} steps={STEPS} median_ms={1e3 * statistics.median(times):.1f} "
          f"copying_s={copying:.2f} share={copying / total:.3f}", flush=True)
    if saver:
        saver.wait()
        shutil.rmtree(saver.folder)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

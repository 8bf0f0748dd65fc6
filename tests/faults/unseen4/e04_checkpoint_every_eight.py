"""Sharded training (FSDP2) that writes a full, compressed checkpoint after every eighth step.

What happens: the state is gathered on all ranks, then rank 0 alone compresses weights and moments, writes and syncs
the file and a checksum; rank 1 goes on and waits in the first all-gather of its next step.
Who causes it: rank 0, after steps 7, 15, 23 ...  What is lost: a third to two thirds of the loop, on both ranks.
Right advice: save less often, save sharded or asynchronously, do not compress (weights hardly shrink); the disk is as
fast as ever and no rank is slow.
REPORT_FAULT=0: no checkpoint during the training.
"""
import gzip
import hashlib
import io
import os
import shutil
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

SAVE = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, EVERY, BATCH, WIDTH = 72, 8, 4, 320


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter = nn.Linear(64, WIDTH)
        self.blocks = nn.ModuleList([Block() for _ in range(4)])
        self.leave = nn.Linear(WIDTH, 64)

    def forward(self, x):
        x = self.enter(x)
        for block in self.blocks:
            x = block(x)
        return self.leave(x)


def save(folder, step, model, optimizer):
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    weights, moments = get_state_dict(model, optimizer, options=options)
    if dist.get_rank():
        return 0.0
    begin = time.perf_counter()
    buffer = io.BytesIO()
    torch.save({"step": step, "model": weights, "optimizer": moments}, buffer)
    packed = gzip.compress(buffer.getvalue(), compresslevel=1)
    path = os.path.join(folder, f"step{step:06d}.pt.gz")
    with open(path, "wb") as file:
        file.write(packed)
        file.flush()
        os.fsync(file.fileno())
    with open(path + ".sha256", "w") as file:
        file.write(hashlib.sha256(packed).hexdigest())
    for name in sorted(os.listdir(folder))[:-4]:  # the last two with their sums are kept
        os.remove(os.path.join(folder, name))
    return time.perf_counter() - begin


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = Model()
    mesh = init_device_mesh("cpu", (world,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    folder = tempfile.mkdtemp() if rank == 0 else None
    generator = torch.Generator().manual_seed(rank)
    times, written = [], 0.0
    dist.barrier()
    begin = before = time.perf_counter()
    for step in range(STEPS):
        x = torch.randn(BATCH, 32, 64, generator=generator)
        loss = (model(x) - x.roll(1, 1)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if SAVE and (step + 1) % EVERY == 0:
            written += save(folder, step, model, optimizer)
        if rank == 0 and step % 16 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
        now = time.perf_counter()
        times.append(now - before)
        before = now
    total = time.perf_counter() - begin
    print(f"REPORT rank={rank} loop_s={total:.2f} steps={STEPS} median_ms={1e3 * statistics.median(times):.1f} "
          f"written_s={written:.2f}", flush=True)
    dist.barrier()
    if rank == 0:
        shutil.rmtree(folder)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

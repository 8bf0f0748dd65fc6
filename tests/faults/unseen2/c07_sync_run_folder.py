"""Rank 0 copies its run folder with a subprocess now and then and waits for it.

What happens: rank 0 appends predictions to files; whenever 4 MB more have come together (about every 20 steps) it
runs an external copy program (here a small Python process that hashes the files and then waits for a remote answer)
with subprocess.run(), about a second.  Rank 1 has nothing to do with it and waits in its next all-reduce.
Who causes it: rank 0, between two steps, in subprocess.run (its own CPU is idle then).  Lost: 20 to 50 % of the loop.
Right advice: start it with Popen and go on (or a side process / at the end of the run); steps themselves are even.
REPORT_FAULT=0: the copy is started with Popen and not waited for.
"""
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

WAIT = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, ITEMS = 200, 6000
COPY = "import hashlib, sys, time, glob\nfor f in glob.glob(sys.argv[1] + '/*'): hashlib.sha1(open(f, 'rb').read())\ntime.sleep(0.9)"


class Ranker(nn.Module):
    def __init__(self):
        super().__init__()
        self.users = nn.EmbeddingBag(ITEMS, 32, mode="mean")
        self.items = nn.Embedding(ITEMS, 32)
        self.mlp = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 1))

    def forward(self, history, item):
        return self.mlp(torch.cat([self.users(history), self.items(item)], 1)).squeeze(1)


class RunFolder:
    def __init__(self):
        self.path = tempfile.mkdtemp(prefix="run_")
        self.fresh = 0
        self.seconds = 0.0
        self.children = []
        self.part = 0

    def add(self, array):
        with open(os.path.join(self.path, f"predictions-{self.part}.bin"), "ab") as f:
            self.fresh += f.write(array.tobytes())
        if self.fresh >= 4_000_000:
            self.fresh = 0
            self.part += 1
            self.sync()

    def sync(self):
        t0 = time.perf_counter()
        command = [sys.executable, "-S", "-c", COPY, self.path]
        if WAIT:
            subprocess.run(command, check=True)
        else:
            self.children.append(subprocess.Popen(command))
        self.seconds += time.perf_counter() - t0


def reduce_flat(params):
    flat = torch.cat([p.grad.reshape(-1) for p in params])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    torch._foreach_copy_([p.grad for p in params], [v.view_as(p) for v, p in zip(flat.split([p.numel() for p in params]), params)])


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(3)
    model = Ranker()
    params = list(model.parameters())
    optimizer = torch.optim.Adagrad(params, lr=0.02)
    generator = torch.Generator().manual_seed(rank)
    folder = RunFolder() if rank == 0 else None
    dist.barrier()
    begin = time.perf_counter()
    for step in range(STEPS):
        history = torch.randint(ITEMS, (1024, 12), generator=generator)
        item = torch.randint(ITEMS, (1024,), generator=generator)
        score = model(history, item)
        loss = nn.functional.binary_cross_entropy_with_logits(score, (item % 3 == 0).float())
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        reduce_flat(params)
        optimizer.step()
        if folder is not None:
            folder.add(np.tile(score.detach().numpy(), 50))
    total = time.perf_counter() - begin
    print(f"REPORT rank={rank} loop_s={total:.2f} steps={STEPS} cpu_s={time.thread_time():.2f}", flush=True)
    if folder is not None:
        for child in folder.children:
            child.wait()
        print(f"REPORT rank=0 lost_s={folder.seconds:.2f} share={folder.seconds / total:.3f} parts={folder.part} (time in sync)", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

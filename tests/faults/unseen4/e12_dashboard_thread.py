"""A dashboard thread of rank 0 turns the whole history into indented JSON again and again, holding the GIL.

What happens: the thread works in pure Python, so every operator of rank 0's training thread has to ask for the GIL
again and waits for up to 5 ms each time. Rank 1 waits for rank 0 in the all-reduce of backward.
Who causes it: a second thread of rank 0, for half of the time or more.  What is lost: that slow-down, on both ranks.
Right advice: serialise in another process, append lines instead of the whole history, seldom; rank 0's data and its
core are as good as rank 1's.
REPORT_FAULT=0: no dashboard.
"""
import copy
import json
import os
import statistics
import tempfile
import threading
import time
from collections import deque

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

DASHBOARD = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH, TIMES = 120, 24, 100


class Dashboard(threading.Thread):
    def __init__(self, points=16_000, pause=0.15):
        super().__init__(daemon=True, name="dashboard")
        self.history, self.pause = deque(({"step": -i, "loss": 1.0, "norm": 1.0} for i in range(points)), points), pause
        self.path, self.busy = os.path.join(tempfile.mkdtemp(), "state.json"), 0.0
        self.over = threading.Event()

    def run(self):
        while not self.over.wait(self.pause):
            begin = time.perf_counter()
            text = json.dumps({"series": list(self.history)}, indent=2, sort_keys=True)
            with open(self.path, "w") as file:
                file.write(text)
            self.busy += time.perf_counter() - begin


class Denoiser(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.time = nn.Embedding(TIMES, width)
        self.enter, self.leave = nn.Linear(64, width), nn.Linear(width, 64)
        self.blocks = nn.ModuleList([nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.SiLU(),
                                                   nn.Linear(2 * width, width)) for _ in range(8)])

    def forward(self, x, t):
        h = self.enter(x) + self.time(t)[:, None]
        for block in self.blocks:
            h = h + block(h)
        return self.leave(h)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = Denoiser()
    average = copy.deepcopy(net).requires_grad_(False)
    model = DDP(net)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    dashboard = Dashboard() if rank == 0 and DASHBOARD else None
    if dashboard:
        dashboard.start()
    alpha_bar = torch.cumprod(1 - torch.linspace(1e-4, 0.05, TIMES), 0)
    generator = torch.Generator().manual_seed(rank)
    times = []
    dist.barrier()
    begin = before = time.perf_counter()
    for step in range(STEPS):
        x = torch.randn(BATCH, 16, 64, generator=generator).cumsum(1) / 4
        t = torch.randint(TIMES, (BATCH,), generator=generator)
        noise = torch.randn(x.shape, generator=generator)
        a = alpha_bar[t][:, None, None]
        loss = nn.functional.mse_loss(model(a.sqrt() * x + (1 - a).sqrt() * noise, t), noise)
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        for slow, fast in zip(average.parameters(), net.parameters()):
            slow.lerp_(fast, 0.01)
        if dashboard:
            dashboard.history.append({"step": step, "loss": loss.item(), "norm": norm.item()})
        if rank == 0 and step % 30 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
        now = time.perf_counter()
        times.append(now - before)
        before = now
    total = time.perf_counter() - begin
    busy = 0.0
    if dashboard:
        dashboard.over.set()
        dashboard.join()
        busy = dashboard.busy
    print(f"REPORT rank={rank} loop_s={total:.2f} steps={STEPS} median_ms={1e3 * statistics.median(times):.1f} "
          f"thread_busy_s={busy:.2f} main_cpu_s={time.thread_time():.1f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

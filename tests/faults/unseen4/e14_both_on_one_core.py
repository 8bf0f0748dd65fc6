"""A launcher helper pins both ranks to the same core.

What happens: the helper divides the cores by the number of nodes that it reads from a variable nobody set, so its
share is one core and every local rank gets the first. The two ranks take turns on it while another core is idle.
Who causes it: the affinity of both processes, from the start on.  What is lost: about half, on both ranks alike.
Right advice: look at the affinity (taskset, sched_getaffinity) and at the time ready but not running; one core per
rank; neither the exchange nor the model is slow.
REPORT_FAULT=0: each local rank gets a core of its own. On a machine with a single core there is no difference.
"""
import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

SAME = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH = 110, 8


def pin(local_rank):
    cores = sorted(os.sched_getaffinity(0))
    share = 1 if SAME else len(cores)
    core = cores[local_rank % share]
    os.sched_setaffinity(0, {core})
    return core


class Segmenter(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        def conv(inside, outside, stride=1):
            return nn.Sequential(nn.Conv2d(inside, outside, 3, stride, 1), nn.GroupNorm(4, outside), nn.ReLU())
        self.down = nn.ModuleList([conv(3, width), conv(width, 2 * width, 2), conv(2 * width, 2 * width)])
        self.up = conv(3 * width, width)
        self.head = nn.Conv2d(width, 4, 1)

    def forward(self, x):
        fine = self.down[0](x)
        coarse = self.down[2](self.down[1](fine))
        return self.head(self.up(torch.cat([fine, nn.functional.interpolate(coarse, scale_factor=2.0)], 1)))


def main():
    torch.set_num_threads(1)
    local_rank = int(os.environ["LOCAL_RANK"])
    core = pin(local_rank)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(Segmenter())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    generator = torch.Generator().manual_seed(rank)
    times = []
    dist.barrier()
    begin = before = time.perf_counter()
    for step in range(STEPS):
        pictures = torch.rand(BATCH, 3, 24, 24, generator=generator)
        masks = (pictures.mean(1) * 4).long().clamp(0, 3)
        loss = nn.functional.cross_entropy(model(pictures), masks)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        now = time.perf_counter()
        times.append(now - before)
        before = now
        if rank == 0 and step % 25 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    total = time.perf_counter() - begin
    print(f"REPORT rank={rank} core={core} loop_s={total:.2f} steps={STEPS} "
          f"median_ms={1e3 * statistics.median(times):.1f} cpu_s={time.process_time():.1f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""After one loss spike the loop turns autograd's anomaly detection on and never off again.

What happens: an unrolled recurrent cell (many small operators) trains evenly; the batch of step 130 holds an outlier,
the mean loss jumps, and the guard calls torch.autograd.set_detect_anomaly(True) "for the next time".  From step 131 on
each forward records a traceback per operator and each backward checks for NaN, on both ranks alike.
Who causes it: the program, all ranks, from step 131.  What is lost: 20 to 60 % of the whole loop.
Right advice: turn anomaly detection off again (use it for single steps only); data and hardware have not changed.
REPORT_FAULT=0: the spike is only printed.
"""
import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

DEBUG_ON_SPIKE = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, HIDDEN, TIME = 190, 96, 36


class Unrolled(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(16, HIDDEN)
        self.rec = nn.Linear(HIDDEN, HIDDEN)
        self.gate = nn.Linear(HIDDEN, HIDDEN)
        self.out = nn.Linear(HIDDEN, 16)

    def forward(self, x):
        h = x.new_zeros(x.shape[0], HIDDEN)
        outs = []
        for t in range(x.shape[1]):
            z = torch.sigmoid(self.gate(h))
            h = (1 - z) * h + z * torch.tanh(self.inp(x[:, t]) + self.rec(h))
            outs.append(self.out(h))
        return torch.stack(outs, 1)


def make_batch(step, generator):
    x = torch.cumsum(0.3 * torch.randn(96, TIME + 1, 16, generator=generator), 1)
    return x * 40 if step == 130 else x


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(5)
    generator = torch.Generator().manual_seed(100 + rank)
    model = DDP(Unrolled())
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    average, times = None, []
    begin = time.perf_counter()
    for step in range(STEPS):
        t0 = time.perf_counter()
        x = make_batch(step, generator)
        optimizer.zero_grad()
        loss = nn.functional.smooth_l1_loss(model(x[:, :-1]), x[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        mean = mean.item() / dist.get_world_size()
        if average is not None and step > 20 and mean > 5 * average:
            if rank == 0:
                print(f"step {step}: loss {mean:.3f} against {average:.3f}, looking closer", flush=True)
            if DEBUG_ON_SPIKE:
                torch.autograd.set_detect_anomaly(True)
        else:
            average = mean if average is None else 0.9 * average + 0.1 * mean
        times.append(time.perf_counter() - t0)
    total = time.perf_counter() - begin
    before, after = statistics.median(times[10:130]), statistics.median(times[131:])
    lost = sum(times[131:]) - before * len(times[131:])
    print(f"REPORT rank={rank} loop_s={total:.2f} steps={STEPS} cpu_s={time.thread_time():.2f} "
          f"median_before_ms={before * 1e3:.1f} median_after_ms={after * 1e3:.1f}", flush=True)
    print(f"REPORT rank={rank} lost_s={lost:.2f} share={lost / total:.3f} (steps after 130 against the median before)", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

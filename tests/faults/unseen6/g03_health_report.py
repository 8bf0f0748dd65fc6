"""A report on the parameters that an interval timer starts on the last rank.

What happens: a variational autoencoder is trained on two ranks. On the last rank a timer (setitimer) fires every 1.6 s
by the clock, whatever the training is doing, and its handler sorts every parameter and every moment of Adam to write
their quantiles into a file. The handler runs in the main thread: the step that it hits takes several times as long,
and the other rank waits.
Who causes it: the handler on rank 1.  What is lost: its time, on both ranks, once in 1.6 s: not in every step, and not
in a certain phase of the step.
Right advice: take the report out of the main thread (a copy in a process of its own), sample the tensors or ask every
few minutes; rank 1's core, its data and the link are sound.
REPORT_FAULT=0: no timer is set.
"""

import os
import signal
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

REPORT = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH, PIXELS, HIDDEN, CODE, INTERVAL = 330, 96, 784, 640, 32, 1.6


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(PIXELS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 2 * CODE)
        )
        self.decoder = nn.Sequential(
            nn.Linear(CODE, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, PIXELS)
        )

    def forward(self, x):
        mean, log_var = self.encoder(x).chunk(2, 1)
        code = mean + torch.randn_like(mean) * (0.5 * log_var).exp()
        return self.decoder(code), mean, log_var


class HealthReport:
    """Quantiles of parameters and optimizer state, asked for by a timer."""

    def __init__(self, model, optimizer, path):
        self.model, self.optimizer, self.file, self.taken = model, optimizer, open(path, "w"), []
        self.levels = (0.01, 0.25, 0.5, 0.75, 0.99)

    def quantiles(self, tensor):
        ordered = tensor.detach().flatten().sort().values
        return [f"{ordered[int(level * (len(ordered) - 1))].item():.3e}" for level in self.levels]

    def __call__(self, number, frame):
        began = time.perf_counter()
        for name, parameter in self.model.named_parameters():
            self.file.write(f"{name} {self.quantiles(parameter)}\n")
            for key, moment in self.optimizer.state.get(parameter, {}).items():
                if moment.dim():
                    self.file.write(f"{name}.{key} {self.quantiles(moment)}\n")
        self.file.flush()
        self.taken.append(time.perf_counter() - began)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = DDP(Autoencoder())
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    prototypes = torch.rand(10, PIXELS)
    torch.manual_seed(rank + 1)
    with tempfile.TemporaryDirectory() as folder:
        report = HealthReport(model, optimizer, os.path.join(folder, "health.txt"))
        if REPORT and rank == world - 1:
            signal.signal(signal.SIGALRM, report)
            signal.siginterrupt(signal.SIGALRM, False)
            signal.setitimer(signal.ITIMER_REAL, INTERVAL, INTERVAL)
        durations, start, cpu = [], time.perf_counter(), time.process_time()
        for step in range(STEPS):
            began = time.perf_counter()
            x = (prototypes[torch.randint(0, 10, (BATCH,))] + 0.1 * torch.randn(BATCH, PIXELS)).clamp(0, 1)
            drawn, mean, log_var = model(x)
            likeness = nn.functional.binary_cross_entropy_with_logits(drawn, x, reduction="sum") / BATCH
            loss = likeness - 0.5 * (1 + log_var - mean.square() - log_var.exp()).sum(1).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            durations.append(time.perf_counter() - began)
            if rank == 0 and step % 50 == 0:
                print(f"step {step} loss {loss.item():.1f}", flush=True)
        signal.setitimer(signal.ITIMER_REAL, 0)
        loop = time.perf_counter() - start
        print(
            f"rank {rank}: loop {loop:.2f} s, CPU {time.process_time() - cpu:.2f} s, median step "
            f"{1e3 * statistics.median(durations):.1f} ms, longest {1e3 * max(durations):.0f} ms, "
            f"{len(report.taken)} reports in {sum(report.taken):.2f} s"
        )
        report.file.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""A 'watch the model' helper of rank 0 sorts every gradient in tensor hooks, in every backward.

What happens: as with experiment trackers that watch a model with log_freq=1, rank 0 registers a hook on each parameter
that takes quantiles and a histogram of the gradient when autograd produces it.  Hence rank 0's backward is longer by
half or more, and rank 1 waits in the all-reduce of its own, short backward.
Who causes it: rank 0, in its backward.  What is lost: a fifth to a half of the loop.
Right advice: watch every few hundred steps (or norms only, or off); rank 0's data and machine are not slower.
REPORT_FAULT=0: watch() is not called.
"""
import json
import os
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

WATCH = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS = 170


class Recorder:
    def __init__(self, path):
        self.file = open(path, "a")
        self.seconds = 0.0
        self.rows = {}

    def watch(self, model, bins=64):
        def make(name):
            def hook(grad):
                t0 = time.perf_counter()
                flat = grad.detach().flatten()
                ordered, _ = flat.sort()
                n = len(ordered)
                self.rows[name] = {
                    "q": [ordered[int(q * (n - 1))].item() for q in (0.01, 0.25, 0.5, 0.75, 0.99)],
                    "hist": torch.histc(flat, bins=bins).tolist(),
                }
                self.seconds += time.perf_counter() - t0
            return hook
        for name, p in model.named_parameters():
            p.register_hook(make(name))

    def flush(self, step):
        self.file.write(json.dumps({"step": step, "tensors": len(self.rows)}) + "\n")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(24, 48, 3, padding=1), nn.BatchNorm2d(48), nn.ReLU(),
            nn.Conv2d(48, 64, 3, padding=1, stride=2), nn.ReLU())
        self.classifier = nn.Sequential(nn.Flatten(), nn.Linear(64 * 64, 128), nn.ReLU(), nn.Linear(128, 10))

    def forward(self, x):
        return self.classifier(self.features(x))


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(7 + rank)
    net = Net()
    recorder = Recorder(os.path.join(tempfile.mkdtemp(), "metrics.jsonl")) if rank == 0 else None
    ddp = DDP(net)
    if recorder and WATCH:
        recorder.watch(net)
    optimizer = torch.optim.Adam(ddp.parameters(), lr=1e-3)
    images, labels = torch.randn(512, 3, 32, 32), torch.randint(10, (512,))
    dist.barrier()
    begin = time.perf_counter()
    for step in range(STEPS):
        pick = torch.randint(512, (20,))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(ddp(images[pick]), labels[pick])
        loss.backward()
        optimizer.step()
        if recorder:
            recorder.flush(step)
            if step % 40 == 0:
                print(f"[{step}] loss={loss.item():.3f}", flush=True)
    total = time.perf_counter() - begin
    print(f"REPORT rank={rank} loop_s={total:.2f} steps={STEPS} cpu_s={time.thread_time():.2f}", flush=True)
    if recorder:
        print(f"REPORT rank=0 lost_s={recorder.seconds:.2f} share={recorder.seconds / total:.3f} (time in the hooks)", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

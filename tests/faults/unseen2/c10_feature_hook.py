"""Forward hooks that once served a visualisation keep all feature maps of the whole run.

What happens: one process; `FeatureTap` hooks three convolutions and appends a copy of each output to a list per
layer.  The picture is drawn from the last entry only; nothing clears the lists, so the host memory of the process
grows by about 10 MB in every step, along a straight line, until the host or its cgroup is full.
Who causes it: the hooks (training thread).  What is lost: little time (some per cent), but the run will be killed.
Right advice: remove the hooks, or keep the last entry only (dict instead of list).
REPORT_FAULT=0: only the last entry per layer is kept.
"""
import collections
import os
import resource
import time

import torch
from torch import nn

KEEP_ALL = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS = 190


class FeatureTap:
    def __init__(self, model, kinds=(nn.Conv2d,)):
        self.maps = collections.defaultdict(list if KEEP_ALL else lambda: collections.deque(maxlen=1))
        self.seconds = 0.0
        for name, module in model.named_modules():
            if isinstance(module, kinds):
                module.register_forward_hook(self.collector(name))

    def collector(self, name):
        def hook(module, inputs, output):
            t0 = time.perf_counter()
            self.maps[name].append(output.detach().clone())
            self.seconds += time.perf_counter() - t0
        return hook

    def summary(self):
        return {name: float(maps[-1].abs().mean()) for name, maps in self.maps.items()}


def rss_mb():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * resource.getpagesize() / 1e6


def main():
    torch.set_num_threads(1)
    torch.manual_seed(2)
    encoder = nn.Sequential(nn.Conv2d(1, 16, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
                            nn.Conv2d(32, 24, 3, padding=1), nn.ReLU())
    decoder = nn.Sequential(nn.ConvTranspose2d(24, 16, 4, stride=2, padding=1), nn.ReLU(), nn.ConvTranspose2d(16, 1, 3, padding=1))
    model = nn.Sequential(encoder, decoder)
    tap = FeatureTap(encoder)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    images = torch.rand(400, 1, 56, 56)
    first, begin = None, time.perf_counter()
    for step in range(STEPS):
        x = images[torch.randint(400, (34,))]
        loss = nn.functional.l1_loss(model(x), x)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step == 10:
            first = rss_mb()
        if step % 40 == 0:
            print(step, round(loss.item(), 4), tap.summary(), flush=True)
    total = time.perf_counter() - begin
    print(f"REPORT loop_s={total:.2f} steps={STEPS} cpu_s={time.thread_time():.2f} "
          f"rss_growth_mb={rss_mb() - first:.0f} per_step_mb={(rss_mb() - first) / (STEPS - 11):.1f}")
    print(f"REPORT lost_s={tap.seconds:.2f} share={tap.seconds / total:.3f} (time in the hooks)")


if __name__ == "__main__":
    main()

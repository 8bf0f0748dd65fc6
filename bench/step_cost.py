"""Added time of one always-on step, zero-code: bare and hooked processes in turn, the same tiny loop in each.

    python bench/step_cost.py [pairs] [plain|ddp …]

The steps are as small as torch allows, so that what is added shows. Each process reports the median and the lowest
decile of its steps; the difference of a pair is what the hooks cost. Medians over the pairs are printed, and the spread.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

JOB = r"""
import gc, os, sys, time, torch, torch.nn as nn
torch.set_num_threads(1)
kind, steps = sys.argv[1], 4000
m = nn.Linear(8, 8)
if kind == "ddp":
    import torch.distributed as dist
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    m = nn.parallel.DistributedDataParallel(m)
o = torch.optim.SGD(m.parameters(), 0.01)
x = torch.randn(4, 8)
gc.disable()
t = []
for i in range(steps):
    a = time.perf_counter_ns()
    m(x).sum().backward()
    o.step()
    o.zero_grad()
    t.append(time.perf_counter_ns() - a)
t = sorted(t[500:])
print(t[len(t) // 2] / 1e3, t[len(t) // 10] / 1e3)
"""


def measure(kind: str, hooked: bool, package: Path) -> tuple[float, float]:
    env = {k: v for k, v in os.environ.items() if not k.startswith("STEPSCOPE")}
    env["OMP_NUM_THREADS"] = "1"
    folder = tempfile.mkdtemp(prefix="ss-bench-", dir="/dev/shm")
    if hooked:
        env["PYTHONPATH"] = f"{package / '_inject'}:{package.parent}"
        env["STEPSCOPE_SHM"] = folder
    try:
        done = subprocess.run([sys.executable, "-c", JOB, kind], env=env, capture_output=True, text=True, check=True)
        if hooked and not os.listdir(folder):
            raise SystemExit("the hooked process left no black box")
        median, low = done.stdout.split()[-2:]
        return float(median), float(low)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    import stepscope

    package = Path(stepscope.__file__).parent
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 6
    for kind in sys.argv[2:] or ["plain", "ddp"]:
        added: list[tuple[float, float]] = []
        base: list[float] = []
        for i in range(pairs):
            order = (False, True) if i % 2 == 0 else (True, False)
            got = {hooked: measure(kind, hooked, package) for hooked in order}
            added.append((got[True][0] - got[False][0], got[True][1] - got[False][1]))
            base.append(got[False][0])
        p50 = [a for a, _ in added]
        low = [b for _, b in added]
        print(
            f"{kind:6} bare p50 {statistics.median(base):7.1f} us; added p50 {statistics.median(p50):+.1f} us "
            f"(pairs {min(p50):+.1f} to {max(p50):+.1f}), added at the lowest decile {statistics.median(low):+.1f} us"
        )


if __name__ == "__main__":
    main()

"""A training that keeps what it should forget: every step's output stays in a list, for statistics that nobody reads.

    stepscope run examples/memory_creep.py                 # HOST MEMORY CREEP on a CPU, MEMORY CREEP on a GPU
    stepscope run examples/memory_creep.py --fix           # keeps a number instead of a tensor

A step takes `--step-ms`; growth is judged after some 300 steps and a minute, when caches and arenas have filled.
Nothing in it knows stepscope.
"""

from __future__ import annotations

import argparse
import time

import torch
from torch import nn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=320)
    parser.add_argument("--step-ms", type=float, default=300)
    parser.add_argument("--kept-mb", type=float, default=1)
    parser.add_argument("--fix", action="store_true")
    options = parser.parse_args()

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_num_threads(1)
    torch.manual_seed(0)
    width = 512
    rows = max(1, int(options.kept_mb * 2**20 / 4 / width))
    model = nn.Linear(width, width).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    history = []
    for _ in range(options.steps):
        begin = time.perf_counter()
        output = model(torch.randn(rows, width, device=device))
        loss = output.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(loss.item() if options.fix else output.detach())
        time.sleep(max(0.0, options.step_ms / 1e3 - (time.perf_counter() - begin)))
    print(f"kept {len(history)} results")


if __name__ == "__main__":
    main()

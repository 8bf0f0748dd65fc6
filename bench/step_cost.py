#!/usr/bin/env python3
"""Added time of one always-on step, zero-code, on a machine that is not quiet.

    python bench/step_cost.py [plain|ddp|stamped|loader|hf|lightning|gpu|gpu_ddp ...]

stamped: DDP with a completion stamp per collective.

One process per kind, injected (step_cost_job.py). Blocks of steps run in turn with the hooks in place and with every one of
them taken out (the names put back that were replaced); the difference of neighbouring blocks is what the hooks add, free of
what else the machine does. Time is the training thread's own CPU time; with GPUs (a small transformer, alone or under DDP on
all of them) also the step's wall time, which the host sets there. Printed: the median over the pairs of blocks, with
its quartiles, and the same for an A/A comparison (hooks out in both), which shows the noise. A framework or a GPU
that is not there is left out when no kind is named.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

JOB = Path(__file__).with_name("step_cost_job.py")
NEEDS = {"hf": ("transformers", "accelerate"), "lightning": ("lightning",)}
SWITCHES = ("STEPSCOPE_GPU", "STEPSCOPE_NCCL")  # kept: STEPSCOPE_GPU=off shows what the device marks cost
GPUS = {"gpu": 1, "gpu_ddp": 2}  # least number
KINDS = ("plain", "ddp", "stamped", "loader", *NEEDS, *GPUS)


def here(kind: str) -> bool:
    return all(
        importlib.util.find_spec(name) for name in NEEDS.get(kind, ())
    ) and torch.cuda.device_count() >= GPUS.get(kind, 0)


def main() -> int:
    import stepscope

    package, wrong = Path(stepscope.__file__).parent, 0
    for kind in sys.argv[1:] or filter(here, KINDS):
        folder = tempfile.mkdtemp(prefix="ss-bench-", dir="/dev/shm")
        env = {k: v for k, v in os.environ.items() if not k.startswith("STEPSCOPE") or k in SWITCHES}
        env.update(
            PYTHONPATH=f"{package / '_inject'}:{package.parent}",
            STEPSCOPE_SHM=folder,
            OMP_NUM_THREADS="1",
            PYTHONWARNINGS="ignore",
        )
        launch = (
            ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={torch.cuda.device_count()}"]
            if kind == "gpu_ddp"
            else []
        )
        try:
            done = subprocess.run(
                [sys.executable, *launch, JOB, kind], env=env, check=False, stderr=subprocess.PIPE, text=True
            )
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if done.returncode:
            print(f"{kind}: {done.stderr[-1500:]}", file=sys.stderr)
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())

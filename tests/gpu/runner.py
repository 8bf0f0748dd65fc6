"""Starts a job of tests/gpu/jobs with the hooks injected and reads the ring that it leaves."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ring
from package import package_folder

JOBS = Path(__file__).resolve().parent / "jobs"


@dataclass
class Outcome:
    code: int
    out: str
    err: str
    rings: list[ring.Ring] = field(default_factory=list)

    @property
    def said(self) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        for line in self.out.splitlines():
            _, found, text = line.partition("JSON ")
            if found:
                merged.update(json.loads(text))
        return merged

    @property
    def box(self) -> ring.Ring:
        assert self.rings, f"no ring\n{self.out[-2000:]}\n{self.err[-4000:]}"
        return self.rings[0]

    def check(self) -> Outcome:
        assert self.code == 0, f"exit {self.code}\n{self.out[-3000:]}\n{self.err[-6000:]}"
        return self


class Runner:
    def __init__(self, fakes: Path) -> None:
        self.fakes = fakes
        self.folders: list[Path] = []

    def __call__(self, job: str, *args: str, env: dict[str, str] | None = None, timeout: float = 120) -> Outcome:
        shm = Path(tempfile.mkdtemp(prefix="ss-gpu-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
        self.folders.append(shm)
        package = package_folder()
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("STEPSCOPE", "NCCL", "RANK", "WORLD_SIZE"))}
        environment.update(
            OMP_NUM_THREADS="1",
            RANK="0",
            WORLD_SIZE="1",
            LOCAL_RANK="0",
            STEPSCOPE_SHM=str(shm),
            STEPSCOPE_CUDA_LIBRARY=str(self.fakes / "libfake_cuda.so"),
            FAKES=str(self.fakes),
            PYTHONPATH=os.pathsep.join([str(package / "_inject"), str(package.parent), str(JOBS)]),
        )
        environment.update(env or {})
        done = subprocess.run(
            [sys.executable, str(JOBS / job), *args], env=environment, capture_output=True, text=True, timeout=timeout, check=False
        )
        return Outcome(done.returncode, done.stdout, done.stderr, ring.read_all(shm))

    def clean(self) -> None:
        for folder in self.folders:
            shutil.rmtree(folder, ignore_errors=True)

"""Runs real torch jobs in subprocesses, with the hooks injected or bare, and reads the rings that they leave."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ring
from package import package_folder
from said import said

PACKAGE = package_folder()
OURS = ("STEPSCOPE", "TORCHELASTIC", "NCCL", "RANK", "WORLD_SIZE", "LOCAL_RANK")  # beginnings of names no job inherits


@dataclass
class Outcome:
    """What a job left behind: its output, and its rings (those with evidence first, by rank)."""

    code: int
    out: str
    err: str
    rings: list[ring.Ring] = field(default_factory=list)

    @property
    def said(self) -> dict[str, Any]:
        return said(self.out)

    @property
    def box(self) -> ring.Ring:
        assert self.rings, f"no ring\n{self.out[-2000:]}\n{self.err[-4000:]}"
        return self.rings[0]

    def check(self) -> Outcome:
        assert self.code == 0, f"exit {self.code}\n{self.out[-3000:]}\n{self.err[-6000:]}"
        return self


class Runner:
    """Starts jobs of one folder; ``base`` is what each of them has in its environment, besides what keeps jobs alike."""

    def __init__(self, jobs: Path, base: Mapping[str, str]) -> None:
        self.jobs, self.base = jobs, dict(base)
        self.folders: list[Path] = []

    def shm(self) -> Path:
        folder = Path(tempfile.mkdtemp(prefix="ss-test-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
        self.folders.append(folder)
        return folder

    def environment(self, shm: Path | None, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment of a job: injected when ``shm`` is given, else without any trace of stepscope but the package."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(OURS)}
        path = [str(PACKAGE.parent), str(self.jobs)]
        if shm is not None:
            env["STEPSCOPE_SHM"] = str(shm)
            path.insert(0, str(PACKAGE / "_inject"))
        env.update(OMP_NUM_THREADS="1", PYTHONHASHSEED="0", PYTHONPATH=os.pathsep.join(path), **self.base)
        env.update(extra or {})
        return env

    def __call__(
        self,
        job: str | list[str],
        *args: str,
        hooked: bool = True,
        ranks: int = 0,
        env: dict[str, str] | None = None,
        timeout: float = 180,
        cwd: Path | None = None,
    ) -> Outcome:
        """Runs a job of the folder (or a whole command) with ``ranks`` processes of torchrun, 0 = plain python."""
        shm = self.shm() if hooked else None
        command = job if isinstance(job, list) else [str(self.jobs / job)]
        if not isinstance(job, list):
            launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"] if ranks else []
            command = [sys.executable, *launch, *command]
        process = subprocess.Popen(
            [*command, *args],
            env=self.environment(shm, env),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=cwd,
            start_new_session=True,
        )
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            err += f"\nTIMEOUT after {timeout} s"
        return Outcome(process.returncode, out, err, ring.read_all(shm) if shm else [])

    def clean(self) -> None:
        for folder in self.folders:
            shutil.rmtree(folder, ignore_errors=True)

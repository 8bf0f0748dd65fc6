"""Runs real torch jobs in subprocesses, with the hooks injected or bare, and reads the rings that they leave."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent / "support"))

import ring  # noqa: E402
from package import package_folder  # noqa: E402

JOBS = HERE / "jobs"


PACKAGE = package_folder()


@dataclass
class Outcome:
    """What a job left behind: its output, and its rings (those with evidence first, by rank)."""

    code: int
    out: str
    err: str
    rings: list[ring.Ring] = field(default_factory=list)

    @property
    def said(self) -> dict[str, Any]:
        """Everything that the job printed as ``JSON {...}`` lines, merged; ranks' own facts under "rank<k>"."""
        merged: dict[str, Any] = {}
        for line in self.out.splitlines():
            _, found, text = line.partition("JSON ")
            if found:
                merged.update(json.loads(text))
        return merged

    def check(self) -> Outcome:
        assert self.code == 0, f"exit {self.code}\n{self.out[-3000:]}\n{self.err[-6000:]}"
        return self


def environment(shm: Path | None, extra: dict[str, str] | None = None) -> dict[str, str]:
    """The environment of a job: injected when ``shm`` is given, else without any trace of stepscope but the package."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("STEPSCOPE", "TORCHELASTIC", "RANK", "WORLD_SIZE"))}
    env.update(OMP_NUM_THREADS="1", PYTHONHASHSEED="0", CUDA_VISIBLE_DEVICES="", TORCHINDUCTOR_CACHE_DIR="/tmp/ss-inductor")
    path = [str(PACKAGE.parent), str(JOBS)]
    if shm is not None:
        env["STEPSCOPE_SHM"] = str(shm)
        path.insert(0, str(PACKAGE / "_inject"))
    env["PYTHONPATH"] = os.pathsep.join(path)
    env.update(extra or {})
    return env


class Runner:
    def __init__(self) -> None:
        self.folders: list[Path] = []

    def shm(self) -> Path:
        folder = Path(tempfile.mkdtemp(prefix="ss-test-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
        self.folders.append(folder)
        return folder

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
        """Runs ``jobs/<job>`` (or a whole command) with ``ranks`` processes of torchrun, 0 = plain python."""
        shm = self.shm() if hooked else None
        command = job if isinstance(job, list) else [str(JOBS / job)]
        if not isinstance(job, list):
            launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"] if ranks else []
            command = [sys.executable, *launch, *command]
        process = subprocess.Popen(
            [*command, *args],
            env=environment(shm, env),
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

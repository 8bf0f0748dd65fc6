"""Runs real torch jobs with the hooks injected or bare, and reads the rings that they leave."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import jobs
import ring
from package import package_folder

PACKAGE = package_folder()


def shm_folder() -> Path:
    """A new folder for rings, in shared memory where there is any."""
    return Path(tempfile.mkdtemp(prefix="ss-test-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))


@dataclass
class Outcome(jobs.Outcome):
    """What a job left behind: besides its output, its rings (those with evidence first, by rank)."""

    rings: list[ring.Ring] = field(default_factory=list)

    @property
    def box(self) -> ring.Ring:
        assert self.rings, f"no ring\n{self.stdout[-2000:]}\n{self.stderr[-4000:]}"
        return self.rings[0]


class Runner:
    """Starts jobs of one folder; ``base`` is what each of them has in its environment, besides what keeps jobs alike."""

    def __init__(self, folder: Path, base: Mapping[str, str]) -> None:
        self.jobs, self.base = folder, dict(base)
        self.folders: list[Path] = []

    def shm(self) -> Path:
        self.folders.append(shm_folder())
        return self.folders[-1]

    def environment(self, shm: Path | None, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment of a job: injected when ``shm`` is given, else without any trace of stepscope but the package."""
        path = [str(PACKAGE.parent), str(self.jobs)]
        alike = {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
        if shm is not None:
            alike["STEPSCOPE_SHM"] = str(shm)
            path.insert(0, str(PACKAGE / "_inject"))
        alike["PYTHONPATH"] = os.pathsep.join(path)
        return jobs.environment("NCCL", **{**alike, **self.base, **(extra or {})})

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
        command = job if isinstance(job, list) else jobs.torchrun(ranks, self.jobs / job)
        done = jobs.run([*command, *args], self.environment(shm, env), timeout_s=timeout, cwd=cwd)
        return Outcome(**vars(done), rings=ring.read_all(shm) if shm else [])

    def clean(self) -> None:
        for folder in self.folders:
            shutil.rmtree(folder, ignore_errors=True)

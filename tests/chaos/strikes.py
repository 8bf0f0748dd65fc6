"""What can be done to a running job, and when. One fault per job, drawn from a seed."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import time
from dataclasses import dataclass
from pathlib import Path

KINDS = (
    "kill_rank",
    "stop_rank",
    "kill_agent",
    "stop_agent",
    "kill_launcher",
    "stop_launcher",
    "scribble_ring",
    "truncate_ring",
    "disk_full",
    "shm_full",
)
WEIGHTS = (5, 3, 3, 2, 2, 2, 3, 1, 2, 2)
MAX_STOP_S = 5.0
SMALL_BYTES = 16 << 20  # of the file systems that disk_full and shm_full fill


@dataclass
class Fault:
    kind: str
    rank: int  # of the rank or ring that it hits
    at_step: int  # of rank 0; -1 = between "imported" and "ready" or shortly after
    offset_s: float  # after that moment
    stop_s: float
    seed: int

    @staticmethod
    def draw(seed: int, steps: int) -> Fault:
        rng = random.Random(seed)
        kind = rng.choices(KINDS, WEIGHTS)[0]
        early = rng.random() < 0.15
        return Fault(
            kind,
            rng.randrange(2),
            -1 if early else rng.randrange(steps),
            rng.uniform(0, 1.5 if early else 0.02),
            rng.uniform(0.3, MAX_STOP_S),
            seed,
        )

    def moment(self) -> str:
        """The line after which it strikes."""
        return "rank=0 " if self.at_step < 0 else f" step={self.at_step} "

    def needs_mounts(self) -> bool:
        return self.kind in ("disk_full", "shm_full")


def ring_of(run_folder: Path, pid: int) -> Path | None:
    """The black box of a process: its name carries the pid."""
    try:
        shm = Path(json.loads((run_folder / "manifest.json").read_text())["shm_dir"])
        rings = sorted(shm.glob("*.ring"))
    except (OSError, ValueError, KeyError):
        return None
    return next((r for r in rings if str(pid) in r.name.replace(".", "-").split("-")), None)


def scribble(ring: Path, rng: random.Random) -> str:
    """Random bytes over a random part of the file, header included now and then."""
    size = ring.stat().st_size
    begin = 0 if rng.random() < 0.3 else rng.randrange(size)
    count = min(size - begin, rng.choice([64, 4096, 65536, size]))
    with open(ring, "r+b") as f:
        f.seek(begin)
        f.write(rng.randbytes(count))
    return f"{count} bytes at {begin} of {size}"


def truncate(ring: Path, rng: random.Random) -> str:
    size = rng.choice([0, 4096, ring.stat().st_size // 2])
    os.truncate(ring, size)
    return f"to {size} bytes"


def is_small(folder: Path) -> bool:
    """On the small file system that was made for the job? Never fill another one."""
    try:
        stat = os.statvfs(folder)
    except OSError:
        return False
    return stat.f_blocks * stat.f_frsize <= SMALL_BYTES


def fill(folder: Path) -> str:
    """Takes all the space of a small file system."""
    end = time.monotonic() + 10
    while not is_small(folder):
        if time.monotonic() > end:
            raise OSError(errno.EINVAL, f"{folder} is not the small file system of this job")
        time.sleep(0.002)
    free = os.statvfs(folder).f_blocks * os.statvfs(folder).f_frsize
    written = 0
    with open(folder / "filler", "wb", buffering=0) as f:
        for chunk in (65536, 4096, 1):
            try:
                while written <= free:
                    written += f.write(b"\1" * chunk)
            except OSError as e:
                if e.errno != errno.ENOSPC:
                    raise
    return f"{written} bytes"


def stop_for(pid: int, seconds: float) -> str:
    os.kill(pid, signal.SIGSTOP)
    time.sleep(seconds)
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:  # the launcher did not wait for a stopped agent
        return f"{seconds:.2f} s, gone before its end"
    return f"{seconds:.2f} s"

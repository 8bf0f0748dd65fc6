"""What the runs on real GPUs share: starting a job with the hooks injected, reading its rings, a table of device times."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import jobs
import ring
from injected import shm_folder
from package import package_folder

HERE = Path(__file__).resolve().parent
FORWARD, BACKWARD, OWN, OPTIMIZER, H2D, WAIT = 8, 6, 7, 4, 17, 13
MARK, BEGIN, END = 0, 1, 2
HASH_OP = 56


def start(
    job: list[str], ranks: int, hooked: bool, env: dict[str, str], timeout: float
) -> tuple[str, list[ring.Ring], int]:
    """Runs a job; returns its stdout and stderr, its rings by rank, and its exit code."""
    shm = shm_folder()
    path, alone = list(filter(None, [os.environ.get("PYTHONPATH")])), {}
    if hooked:
        path = [str(package_folder() / "_inject"), str(package_folder().parent), *path]
        alone = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"} if ranks == 0 else {}
        alone["STEPSCOPE_SHM"] = str(shm)
    environment = jobs.environment(**{"PYTHONPATH": os.pathsep.join(path), **alone, **env})
    try:
        done = jobs.run(jobs.torchrun(ranks, *job), environment, timeout_s=timeout)
        return done.stdout + done.stderr, ring.read_all(shm), done.rc
    finally:
        shutil.rmtree(shm, ignore_errors=True)


def observed(job: list[str], ranks: int, logs: Path, name: str, env: dict[str, str], *options: str) -> jobs.Job:
    """Starts a job under `stepscope run`, with the package under test."""
    words = jobs.observed(logs, name, *options, "--", *jobs.torchrun(ranks, *job))
    return jobs.Job(words, jobs.environment(STEPSCOPE_PYTHON_DIR=str(package_folder()), **env))


def train(
    *arguments: str, ranks: int = 0, hooked: bool = True, env: dict[str, str] | None = None, timeout: float = 120
):
    return start([str(HERE / "jobs" / "train_gpu.py"), *arguments], ranks, hooked, env or {}, timeout)


def signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


class Steps:
    """Device times of one rank by optimizer step, ms: forward, own (backward), tail, backward, optimizer, step; and h2d."""

    def __init__(self, box: ring.Ring) -> None:
        self.box = box
        self.ends = [r.time for r in box.of("Optimizer<")]
        marks: dict[tuple[int, int], list[ring.Record]] = {}
        for r in box.of("GpuMark"):
            marks.setdefault((r.a & 0xFF, r.a >> 8), []).append(r)
        self.marks = marks

    def times(self, kind: int, edge: int) -> list[list[ring.Record]]:
        """Marks of one boundary per step."""
        out: list[list[ring.Record]] = [[] for _ in self.ends]
        step = 0
        for r in sorted(self.marks.get((kind, edge), []), key=lambda r: r.time):
            while step < len(self.ends) and r.time > self.ends[step]:
                step += 1
            if step < len(self.ends):
                out[step].append(r)
        return out

    def span(self, begin: tuple[int, int], end: tuple[int, int]) -> list[float | None]:
        pairs = zip(self.times(*begin), self.times(*end))
        return [(signed(e[-1].d) - signed(b[0].d)) / 1e6 if b and e else None for b, e in pairs]

    def table(self) -> dict[str, list[float | None]]:
        last = [signed(r[-1].d) / 1e6 if r else None for r in self.times(OPTIMIZER, END)]
        step = [None] + [b - a if a is not None and b is not None else None for a, b in zip(last, last[1:])]
        return {
            "forward": self.span((FORWARD, BEGIN), (FORWARD, END)),
            "own": self.span((BACKWARD, BEGIN), (OWN, MARK)),
            "tail": self.span((OWN, MARK), (BACKWARD, END)),
            "backward": self.span((BACKWARD, BEGIN), (BACKWARD, END)),
            "optimizer": self.span((OPTIMIZER, BEGIN), (OPTIMIZER, END)),
            "step": step,
        }

    def host(self, kind: str) -> list[float]:
        return [(e.time - b.time) / 1e6 for b, e in self.box.spans(kind)]


def exposed_tails(box: ring.Ring) -> list[float | None]:
    """Per step, ms: from the end of own backward to the end of the last collective, at most the end of backward."""
    steps = Steps(box)
    ops = [(r.c, r.d) for r in box.of("NcclTime") if r.c]
    out: list[float | None] = []
    for own, end in zip(steps.times(OWN, MARK), steps.times(BACKWARD, END)):
        if not own or not end:
            out.append(None)
            continue
        begin, until = own[0].c, end[-1].c
        last = max((min(d, until) for c, d in ops if c < until and d > begin), default=begin)
        out.append((last - begin) / 1e6)
    return out


def median(values: list[float | None], skip: int = 5) -> float | None:
    known = [v for v in values[skip:] if v is not None]
    return round(statistics.median(known), 3) if known else None


def collectives(boxes: list[ring.Ring]) -> dict[tuple[int, int], list[float | None]]:
    """Device duration in ms of every collective that all ranks have: {(hash, key): [per rank]}."""
    seen: dict[tuple[int, int], list[float | None]] = {}
    for i, box in enumerate(boxes):
        for r in box.of("NcclTime"):
            if r.flags == 1 and r.b >> HASH_OP < 10:
                seen.setdefault((r.a, r.b), [None] * len(boxes))[i] = (r.d - r.c) / 1e6
    return {key: row for key, row in seen.items() if None not in row}


def blame(boxes: list[ring.Ring]) -> list[float]:
    """Who made others wait, ms in all: the last arriver of a collective has the shortest duration (no clock needed)."""
    caused = [0.0] * len(boxes)
    for row in collectives(boxes).values():
        least = min(row)
        caused[row.index(least)] += sum(row) - least * len(row)
    return [round(c, 1) for c in caused]


def versions() -> dict[str, str]:
    import torch

    driver = subprocess.run(
        ["nvidia-smi", "--query-gpu=driver_version,name", "--format=csv,noheader"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.splitlines()
    nccl = ".".join(map(str, torch.cuda.nccl.version())) if torch.distributed.is_nccl_available() else "none"
    return {
        "torch": torch.__version__,
        "nccl": nccl,
        "driver_and_gpu": driver[0] if driver else "?",
        "gpus": str(len(driver)),
    }


def report(name: str, ok: bool, **figures: object) -> bool:
    print(json.dumps({"check": name, "ok": ok, **figures}), flush=True)
    return ok

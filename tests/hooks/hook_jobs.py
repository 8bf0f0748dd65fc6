"""The jobs of the hook tests and what they have in their environment: no GPU."""

from __future__ import annotations

from pathlib import Path

from injected import PACKAGE, Runner

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


JOBS = HERE / "jobs"

__all__ = ["JOBS", "PACKAGE", "ROOT", "make_runner"]


def make_runner() -> Runner:
    return Runner(JOBS, {"CUDA_VISIBLE_DEVICES": "", "TORCHINDUCTOR_CACHE_DIR": "/tmp/ss-inductor"})

"""The jobs of the hook tests and what they have in their environment: no GPU."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent / "support"))

from injected import PACKAGE, Runner  # noqa: E402

JOBS = HERE / "jobs"

__all__ = ["JOBS", "PACKAGE", "ROOT", "make_runner"]


def make_runner() -> Runner:
    return Runner(JOBS, {"CUDA_VISIBLE_DEVICES": "", "TORCHINDUCTOR_CACHE_DIR": "/tmp/ss-inductor"})

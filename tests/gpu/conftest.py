"""Device tests without a GPU: a torch job with the fake CUDA driver and the fake NCCL host of src/recorder.

The fakes are built with the C++ tests; STEPSCOPE_TEST_FAKES names their folder when it is not build/<preset>/src/recorder.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from injected import Runner

ROOT = Path(__file__).resolve().parents[2]


JOBS = ROOT / "tests" / "gpu" / "jobs"


def fakes_folder() -> Path | None:
    named = os.environ.get("STEPSCOPE_TEST_FAKES")
    folders = (
        [Path(named)]
        if named
        else [ROOT / "build" / preset / "src" / "recorder" for preset in ("wheel", "dev", "asan")]
    )
    return next((f for f in folders if (f / "libfake_cuda.so").exists()), None)


@pytest.fixture(scope="session")
def fakes() -> Path:
    folder = fakes_folder()
    if folder is None:
        pytest.skip("the fake CUDA driver is not built (make unit)")
    return folder


@pytest.fixture(scope="session")
def run(fakes):
    fake = {"STEPSCOPE_CUDA_LIBRARY": str(fakes / "libfake_cuda.so"), "FAKES": str(fakes)}
    runner = Runner(JOBS, {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", **fake})
    yield runner
    runner.clean()

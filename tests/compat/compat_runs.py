"""Starts `stepscope run --compat traceml` on a script and reads what it left."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import jobs
from package import package_folder

SCRIPTS = Path(__file__).resolve().parent / "scripts"
TIMEOUT_S = 240


def python_env(**extra: str) -> dict[str, str]:
    """The environment of a job: nothing of an outer run, the package under test."""
    usual = {
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
    }
    ours = {"STEPSCOPE_PYTHON_DIR": str(package_folder()), "PYTHONPATH": str(package_folder().parent)}
    return jobs.environment(**usual | ours | extra)


def stepscope(
    folder: Path, *words: str, env: dict[str, str] | None = None, timeout_s: float = TIMEOUT_S
) -> jobs.Outcome:
    """Runs `stepscope <words>` in `folder`."""
    return jobs.run([jobs.binary(), *words], python_env(**(env or {})), timeout_s=timeout_s, cwd=folder)


@dataclass
class Run(jobs.Outcome):
    """One finished run."""

    @classmethod
    def of(
        cls,
        folder: Path,
        script: Path,
        *args: str,
        options: tuple[str, ...] | list[str] = (),
        env: dict[str, str] | None = None,
        compat: str = "traceml",
    ) -> Run:
        """Runs one script under `--compat`."""
        done = stepscope(folder, "run", "--compat", compat, "--run-name", "r", *options, str(script), *args, env=env)
        left = folder / "logs/r"
        return cls(**vars(done) | {"folder": left, "summary": jobs.summary(left) or {}})

    def check(self) -> Run:
        super().check()
        assert self.summary, self.stderr[-4000:]
        return self

    @property
    def steps(self) -> int:
        return self.summary["steps"]["count"]

    @property
    def phases(self) -> set[str]:
        """Phases with time in them."""
        return {name for name, row in self.summary["phases"].items() if row["median_ms"]}

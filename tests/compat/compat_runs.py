"""Starts `stepscope run --compat traceml` on a script and reads what it left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from package import package_folder

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = Path(__file__).resolve().parent / "scripts"


BINARY = os.environ.get("STEPSCOPE_BIN", str(ROOT / ".venv/bin/stepscope"))
TIMEOUT_S = 240


def python_env(**extra: str) -> dict[str, str]:
    """The environment of a job: nothing of an outer run, the package under test, this interpreter first on PATH."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("STEPSCOPE_", "TRACEML_", "RANK", "WORLD_SIZE"))}
    env.update(OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="", TOKENIZERS_PARALLELISM="false", HF_HUB_OFFLINE="1")
    env["STEPSCOPE_PYTHON_DIR"] = str(package_folder())
    env["PATH"] = f"{Path(BINARY).parent}:{Path(sys.executable).parent}:{env['PATH']}"
    env["PYTHONPATH"] = str(package_folder().parent)
    env.update(extra)
    return env


def stepscope(
    folder: Path, *words: str, env: dict[str, str] | None = None, timeout_s: float = TIMEOUT_S
) -> subprocess.CompletedProcess[str]:
    """Runs `stepscope <words>` in `folder`."""
    return subprocess.run(
        [BINARY, *words],
        cwd=folder,
        env=python_env(**(env or {})),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


@dataclass
class Run:
    """One finished run."""

    code: int
    out: str
    err: str
    folder: Path
    summary: dict = field(default_factory=dict)

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
        path = folder / "logs/r/final_summary.json"
        return cls(
            done.returncode,
            done.stdout,
            done.stderr,
            path.parent,
            json.loads(path.read_text()) if path.exists() else {},
        )

    def check(self) -> Run:
        assert self.code == 0, f"exit {self.code}\n{self.out[-2000:]}\n{self.err[-4000:]}"
        assert self.summary, self.err[-4000:]
        return self

    @property
    def steps(self) -> int:
        return self.summary["steps"]["count"]

    @property
    def phases(self) -> set[str]:
        """Phases with time in them."""
        return {name for name, row in self.summary["phases"].items() if row["median_ms"]}

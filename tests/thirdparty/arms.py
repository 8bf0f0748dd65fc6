"""Runs one project in one arm: bare, or under ``stepscope run``; the program, folder and environment are the same."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from outcomes import plain
from projects import Project

import jobs

HERE = Path(__file__).resolve().parent
TIMEOUT_S = 1200
_WARNING = re.compile(r"^.*:\d+: \w*Warning: .*$", re.MULTILINE)  # in a script's stderr, which our summary shares


@dataclass
class Arm:
    """What one run of a project did."""

    code: int
    elapsed_s: float
    tests: dict[str, dict[str, Any]] = field(default_factory=dict)  # nodeid → outcome, raised, warnings, said, seconds
    cpu_s: float = 0.0
    last_line: str = ""


class Place:
    """Source packages, an interpreter with all projects and stepscope, a folder for what the runs leave."""

    def __init__(self, python: Path, folder: Path) -> None:
        self.python, self.folder = python, folder
        self.binary = python.with_name("stepscope")

    def source(self, project: Project) -> Path:
        """The project's source package from the index, unpacked anew: what an earlier run left cannot decide."""
        packed = self.folder / "packed" / f"{project.name}-{project.version}"
        if not list(packed.glob("*.tar.gz")):
            packed.mkdir(parents=True, exist_ok=True)
            subprocess.run(
                [
                    self.python,
                    "-m",
                    "pip",
                    "download",
                    "--quiet",
                    "--disable-pip-version-check",
                    "--no-deps",
                    "--no-binary",
                    project.name,
                    "--dest",
                    packed,
                    project.requirement,
                ],
                check=True,
            )
        target = self.folder / "source" / f"{project.name}-{project.version}"
        shutil.rmtree(target, ignore_errors=True)
        with tarfile.open(next(packed.glob("*.tar.gz"))) as tar:
            tar.extractall(target, filter="data")
        return next(p for p in target.iterdir() if p.is_dir())

    def run(self, project: Project, observed: bool, only: tuple[str, ...] = ()) -> Arm:
        """``only``: these files instead of the project's own selection."""
        with tempfile.TemporaryDirectory(prefix="ss-thirdparty-") as scratch:
            out = Path(scratch) / "outcomes.jsonl"
            root = self.source(project) if project.paths else Path(scratch)
            words = self._words(project, only)
            if observed:
                words = [str(self.binary), "run", "--logs-dir", f"{scratch}/logs", "--run-name", "r", "--", *words]
            done = jobs.run(words, self._environment(out), timeout_s=TIMEOUT_S, cwd=root)
            if done.timed_out:
                print(f"thirdparty: stopped after {TIMEOUT_S} s: {' '.join(words)}", file=sys.stderr)
            arm = Arm(done.rc, done.seconds)
            if project.paths:
                arm.last_line = (done.stdout.strip().splitlines() or [""])[-1]
                self._read(arm, out, done.stdout + done.stderr)
            else:
                arm.tests["output"] = {
                    "outcome": {"exit": done.rc},
                    "raised": "",
                    "warnings": [plain(w) for w in _WARNING.findall(done.stderr)],
                    "said": {"stdout": plain(done.stdout)},
                    "seconds": arm.elapsed_s,
                }
            return arm

    def _words(self, project: Project, only: tuple[str, ...]) -> list[str]:
        if project.command:
            return [w.format(python=self.python, here=HERE) for w in project.command]
        ignored = [f"--ignore={p}" for p in project.without]
        return [
            str(self.python),
            "-m",
            "pytest",
            "-p",
            "outcomes",
            "-p",
            "no:cacheprovider",
            "-q",
            "--tb=line",
            "--color=no",
            "-o",
            "addopts=",
            "--continue-on-collection-errors",
            *ignored,
            *(only or project.paths),
        ]

    def _environment(self, out: Path) -> dict[str, str]:
        usual = {
            "OMP_NUM_THREADS": "1",
            "PYTHONHASHSEED": "0",
            "CUDA_VISIBLE_DEVICES": "",
            "HF_HUB_OFFLINE": "1",
            "MPLBACKEND": "agg",
            "TOKENIZERS_PARALLELISM": "false",
            "PYTHONPATH": str(HERE),
            "THIRDPARTY_OUT": str(out),
            "COLUMNS": "120",
            "ACCELERATE_USE_CPU": "1",
            "ACCELERATE_TESTING": "1",
            "EINOPS_TEST_BACKENDS": "numpy,torch",
            "PATH": f"{self.python.parent}{os.pathsep}{os.environ['PATH']}",
        }
        return jobs.environment("PYTEST_", "COV_", **usual)

    def _read(self, arm: Arm, out: Path, said: str) -> None:
        if not out.exists() or not out.stat().st_size:
            arm.tests["(session)"] = {
                "outcome": {"session": "no outcomes"},
                "raised": plain(said[-2000:]),
                "warnings": [],
                "said": {},
                "seconds": 0.0,
            }
            return
        for line in out.read_text().splitlines():
            row = json.loads(line)
            if "test" in row:
                arm.tests[row.pop("test")] = row
            else:
                arm.cpu_s = row["cpu_seconds"]

"""tools/check_format.sh: a tool that cannot run is no file that is laid out well."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def check_with(folder: Path, **programs: str) -> subprocess.CompletedProcess[str]:
    """The check in an environment that holds these programs alone."""
    (folder / "bin").mkdir()
    for name, text in programs.items():
        program = folder / "bin" / name.replace("_", "-")
        program.write_text(text)
        program.chmod(0o755)
    env = {**os.environ, "STEPSCOPE_VENV": str(folder)}
    return subprocess.run(["sh", str(ROOT / "tools/check_format.sh")], env=env, capture_output=True, text=True)


@pytest.mark.parametrize(
    "tool, code",
    [
        ("#!/nowhere/python\n", 2),
        ("#!/bin/sh\n[ $1 = --version ] || { echo no such style; exit 1; }\n", 2),
        ("#!/bin/sh\n[ $1 = --version ] || echo src/a.cc:1:2: warning: not so\n", 1),
        ("#!/bin/sh\n", 0),
    ],
)
def test_what_it_says_of_its_tool(tmp_path: Path, tool: str, code: int) -> None:
    done = check_with(tmp_path, clang_format=tool, python="#!/bin/sh\nexit 1\n")
    assert done.returncode == code, done.stdout + done.stderr
    assert code != 1 or "src/a.cc" in done.stdout

"""Starts or joins the agent of this node for a process that no launcher has started."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path


def binary() -> str | None:
    """The ``stepscope`` command: beside this interpreter, else on PATH."""
    beside = Path(sys.executable).with_name("stepscope")
    return str(beside) if beside.exists() else shutil.which("stepscope")


def start(timeout_s: float = 5.0) -> bool:
    """Asks ``stepscope attach`` for an agent that watches this process and takes over the environment it answers with.

    The answer is one line of JSON: ``{"STEPSCOPE_SHM": …, "STEPSCOPE_RUN_DIR": …, "STEPSCOPE_NONCE": …}``. False when
    there is no such command or it does not answer in time. Never raises.
    """
    command = binary()
    if command is None:
        return False
    try:
        answer = subprocess.run(
            [command, "attach", str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=timeout_s,
            check=False,
        )
        lines = answer.stdout.decode("utf-8", "replace").splitlines()
        variables = json.loads(lines[0]) if answer.returncode == 0 and lines else {}
        found = {key: value for key, value in variables.items() if key.startswith("STEPSCOPE_") and isinstance(value, str)}
    except (OSError, ValueError, AttributeError, subprocess.SubprocessError):
        return False
    if "STEPSCOPE_SHM" not in found:
        return False
    os.environ.update(found)
    return True

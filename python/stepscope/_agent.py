"""Starts or joins the agent of this node for a process that no launcher has started."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

_VERDICT_WAIT_S = 2.0  # from our last exit handler to the summary; the agent usually needs a tenth of it
_POLL_S = 0.02


def binary() -> str | None:
    """The ``stepscope`` command: beside this interpreter, else on PATH."""
    beside = Path(sys.executable).with_name("stepscope")
    return str(beside) if beside.exists() else shutil.which("stepscope")


def start(timeout_s: float = 5.0) -> str:
    """Asks ``stepscope attach`` for an agent that watches this process and takes over the environment it answers with.

    The answer is one line of JSON: ``{"STEPSCOPE_SHM": …, "STEPSCOPE_RUN_DIR": …, "STEPSCOPE_NONCE": …}``. Returns ""
    when the agent is there, else the reason why not. Never raises.
    """
    try:
        found = _attach(timeout_s)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return f"the agent cannot be started: {error}"
    if isinstance(found, str):
        return found
    os.environ.update(found)
    # Registered before the hooks' own handler, so it runs after it: the black box is closed by then.
    atexit.register(_show_summary, os.getpid(), found.get("STEPSCOPE_RUN_DIR", ""))
    return ""


def _attach(timeout_s: float) -> dict[str, str] | str:
    command = binary()
    if command is None:
        return "there is no stepscope command beside this Python or on PATH"
    answer = subprocess.run(
        [command, "attach", str(os.getpid())],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=timeout_s,
        check=False,
    )
    said = answer.stderr.decode("utf-8", "replace").strip().splitlines()
    reason = said[-1].removeprefix("stepscope: ") if said else f"exit code {answer.returncode}"
    lines = answer.stdout.decode("utf-8", "replace").splitlines()
    if answer.returncode != 0 or not lines:
        return reason
    for line in said:  # what is lost although it works: a read-only logs folder, …
        print(line, file=sys.stderr)
    variables = json.loads(lines[0])
    if not isinstance(variables, dict) or not isinstance(variables.get("STEPSCOPE_SHM"), str):
        return "the agent's answer cannot be read"
    return {key: value for key, value in variables.items() if key.startswith("STEPSCOPE_") and isinstance(value, str)}


def _show_summary(owner: int, folder: str) -> None:
    """At exit of the process that started it: the agent's verdict on stderr, as ``stepscope run`` prints it. Rank 0
    speaks for all. Waits at most ``_VERDICT_WAIT_S``."""
    try:
        if os.getpid() != owner or not folder or os.environ.get("RANK", "0") != "0":
            return
        text = Path(folder) / "final_summary.txt"
        deadline = time.monotonic() + _VERDICT_WAIT_S
        while not text.exists() and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        if text.exists():
            sys.stderr.write(text.read_text(encoding="utf-8"))
        else:
            sys.stderr.write(f"stepscope: the summary will be in {folder}\n")
        sys.stderr.flush()
    except Exception:
        pass

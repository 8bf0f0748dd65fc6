"""Reads the summary of the current run: the file when it is over, the agent's answer while it goes on."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

_POLL_S = 0.02


def final_summary(run_dir: str | os.PathLike[str] | None = None) -> dict[str, Any] | None:
    """The parsed ``final_summary.json`` of ``run_dir`` (default: the run that this process belongs to).

    None when there is no run or the summary is not written yet: that happens after the training command has ended.
    Raises ValueError when the file is not valid JSON.
    """
    folder = run_dir if run_dir is not None else os.environ.get("STEPSCOPE_RUN_DIR", "")
    if not str(folder):
        return None
    return _parsed(Path(folder) / "final_summary.json")


def summary(run_dir: str | os.PathLike[str] | None = None, timeout_s: float = 5.0) -> dict[str, Any] | None:
    """The newest summary of the run, in the form of ``final_summary.json``.

    While the training goes on, the agent of this node is asked and ``run.status`` is ``"running"``; the step or two that
    are still open are not in it. Waits at most ``timeout_s`` seconds for the answer (usually 0.1), so call it rarely:
    after an epoch, at the end. None without a run or without an answer. Raises ValueError as ``final_summary`` does.
    """
    found = final_summary(run_dir)
    if found is not None or run_dir is not None:
        return found
    folder = os.environ.get("STEPSCOPE_SHM", "")
    return _asked(Path(folder), timeout_s) if folder else None


def _asked(folder: Path, timeout_s: float) -> dict[str, Any] | None:
    token = f"{os.getpid():x}-{time.monotonic_ns():x}"
    ask, answer = folder / f"{token}.ask", folder / f"{token}.answer"
    end = time.monotonic() + timeout_s
    try:
        ask.touch(mode=0o600)
    except OSError:
        return None
    while time.monotonic() < end:
        found = _parsed(answer)
        if found is not None:
            answer.unlink(missing_ok=True)
            return found
        time.sleep(_POLL_S)
    for path in (ask, answer):
        try:
            path.unlink(missing_ok=True)
        except OSError:
            pass
    return None


def _parsed(path: Path) -> dict[str, Any] | None:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return None
    parsed = json.loads(text)
    if not isinstance(parsed, dict):
        raise ValueError(f"{path.name} holds no object")
    return parsed

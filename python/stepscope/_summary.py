"""Reads the summary of the current run."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def final_summary(run_dir: str | os.PathLike[str] | None = None) -> dict[str, Any] | None:
    """The parsed ``final_summary.json`` of ``run_dir`` (default: the run that this process belongs to).

    None when there is no run or the summary is not written yet: that happens after the training command has ended.
    Raises ValueError when the file is not valid JSON.
    """
    folder = run_dir if run_dir is not None else os.environ.get("STEPSCOPE_RUN_DIR", "")
    if not str(folder):
        return None
    try:
        text = (Path(folder) / "final_summary.json").read_text(encoding="utf-8")
    except OSError:
        return None
    parsed = json.loads(text)
    if not isinstance(parsed, dict):
        raise ValueError("final_summary.json holds no object")
    return parsed


def summary(run_dir: str | os.PathLike[str] | None = None) -> dict[str, Any] | None:
    """The newest summary of the run: as ``final_summary`` until the agent also answers while the training goes on."""
    return final_summary(run_dir)

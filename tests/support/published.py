"""Public data sets with known answers, kept outside the repository."""

from __future__ import annotations

import os
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def published(name: str) -> pathlib.Path:
    """Folder of the data set `name`, below $STEPSCOPE_PUBLISHED_DATA or ../shared/data; skips the test where it is not there."""
    folder = pathlib.Path(os.environ.get("STEPSCOPE_PUBLISHED_DATA", ROOT.parent / "shared" / "data")) / name
    if not folder.is_dir():
        pytest.skip(f"published data set {name} is not here ({folder})")
    return folder

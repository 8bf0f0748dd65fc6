"""Where the stepscope package under test lies."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path


def package_folder() -> Path:
    """STEPSCOPE_TEST_PACKAGE, else as this interpreter has it installed."""
    named = os.environ.get("STEPSCOPE_TEST_PACKAGE")
    if named:
        return Path(named)
    spec = importlib.util.find_spec("stepscope")
    assert spec and spec.origin, "stepscope is not built: run make build"
    return Path(spec.origin).parent

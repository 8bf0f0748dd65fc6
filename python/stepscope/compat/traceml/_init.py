"""init: nothing has to be switched on here; what it was asked for is compared with what the launcher decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import stepscope
from stepscope.compat import missing

_PATCHES = ("patch_dataloader", "patch_forward", "patch_backward", "patch_h2d")
# Arguments that are decided before the script runs, and by which option.
_LAUNCHER = {
    "ui_mode": "--mode",
    "interval": "--interval",
    "logs_dir": "--logs-dir",
    "enable_logging": "--keep-rings",
    "session_id": "--run-name",
}
_MODES = {"auto": "auto", "manual": "manual", "selective": "selective", "custom": "selective"}


@dataclass(frozen=True)
class TraceMLInitConfig:
    """What ``init`` was asked for."""

    mode: str = "auto"
    patch_dataloader: bool = True
    patch_forward: bool = True
    patch_backward: bool = True
    patch_h2d: bool = True


def init(mode: str = "auto", **options: Any) -> TraceMLInitConfig:
    """Accepts every argument of TraceML's ``init`` and returns the configuration.

    In every mode stepscope sees all phases; a ``wrap_*`` around something it sees already changes nothing, so that
    nothing is counted twice. Arguments about the view and the folder belong to the launcher; one that is given here is
    named in the summary.
    """
    stepscope.init()
    known = _MODES.get(str(mode).lower())
    if known is None:
        missing(f"init(mode={mode!r})", "is no mode of TraceML; all phases are seen")
        known = "auto"
    if options.get("disabled"):
        missing("init(disabled=True)", "the run is observed all the same; `stepscope run --disable` runs it bare")
    for argument, flag in _LAUNCHER.items():
        if options.get(argument) is not None:
            missing(f"init({argument}=…)", f"the launcher decides: {flag}")
    chosen = {name: bool(options.get(name) if options.get(name) is not None else known == "auto") for name in _PATCHES}
    return TraceMLInitConfig(mode=known, **chosen)


start = init

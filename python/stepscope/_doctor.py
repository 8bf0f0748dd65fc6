"""What ``stepscope doctor`` asks of the training's own Python. Run as a script; prints one JSON object per line:
``{"name": …, "state": "ok" | "degraded" | "missing", "text": …, "essential": …}``.

Nothing is recorded and no device is initialised beyond what importing torch does. The signals that cannot be had come
from the hooks themselves, so that their words are those of the summary.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import sys
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Any

OLDEST = (3, 10)


def say(name: str, state: str, text: str, essential: bool = False) -> None:
    """One line of the report. ``essential``: without it no Python training can be observed."""
    print(json.dumps({"name": name, "state": state, "text": text, "essential": essential}), flush=True)


def check_python() -> None:
    version = platform.python_version()
    if sys.version_info < OLDEST:
        say("python", "missing", f"{version} at {sys.executable}: stepscope needs 3.10 or newer", True)
        return
    say("python", "ok", f"{version} at {sys.executable}", True)


def check_injection() -> None:
    flags = [
        f
        for f, on in (("-I", sys.flags.isolated), ("-E", sys.flags.ignore_environment), ("-S", sys.flags.no_site))
        if on
    ]
    if flags:
        say(
            "injection",
            "missing",
            f"this interpreter runs with {' '.join(flags)} and ignores PYTHONPATH: call stepscope.init()",
            True,
        )
    elif not getattr(sys, "_stepscope_injected", False):
        first = getattr(sys.modules.get("sitecustomize"), "__file__", None)
        why = f"{first} comes first and keeps ours out" if first else "our sitecustomize did not run"
        say("injection", "missing", f"{why}: call stepscope.init(), or take it off PYTHONPATH", True)
    else:
        say(
            "injection",
            "ok",
            "by PYTHONPATH; python -I, -E and -S ignore it, a program run so needs stepscope.init()",
            True,
        )


def check_customize() -> None:
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_inject")
    rest = [p for p in sys.path if os.path.abspath(p or ".") != here]
    for name in ("sitecustomize", "usercustomize"):
        spec = PathFinder.find_spec(name, rest)
        if spec is not None and spec.origin:
            say(name, "ok", f"{spec.origin} still runs, after ours")


def check_native() -> bool:
    try:
        from stepscope import _native
    except ImportError as error:
        say("recorder", "missing", f"stepscope._native: {error}", True)
        return False
    say("recorder", "ok", str(_native.__file__), True)
    return True


def import_torch() -> Any:
    if importlib.util.find_spec("torch") is None:
        say("torch", "missing", "not installed in this Python: only programs that use stepscope.h are seen")
        return None
    try:
        import torch
    except Exception as error:
        say("torch", "missing", f"{type(error).__name__}: {error}")
        return None
    cuda = getattr(torch.version, "cuda", None)
    say("torch", "ok", f"{torch.__version__}, {f'CUDA {cuda}' if cuda else 'no CUDA'}")
    return torch


def check_distributed(torch: ModuleType) -> None:
    dist = torch.distributed
    if not dist.is_available():
        say("torch.distributed", "missing", "this torch is built without it: every process is a training of its own")
        return
    gloo = getattr(dist, "is_gloo_available", lambda: True)()
    say(
        "gloo",
        "ok" if gloo else "missing",
        f"as built into torch {torch.__version__}" if gloo else "this torch is built without it",
    )
    if dist.is_nccl_available():
        say("nccl", "ok", ".".join(map(str, torch.cuda.nccl.version())))
    else:
        say("nccl", "missing", "this torch is built without it: fine for trainings on CPU")
    if hasattr(dist.ProcessGroup, "register_pre_hook"):
        say("collectives", "ok", "process-group hooks: every issue is seen")
    else:
        say("collectives", "degraded", "torch before 2.14 has no process-group hooks; waits are seen, issues are not")


def check_hooks(torch: ModuleType) -> None:
    from stepscope import _kinds as k
    from stepscope.hooks import SIGNALS, device, install, names

    install(torch)
    reasons = [text for kind, _, text in names._waiting if kind == k.NAME_UNAVAILABLE]
    for text in reasons:
        signal, _, reason = text.partition(": ")
        say(signal, "degraded", reason)
    broken = {text.partition(": ")[0] for text in reasons} & set(SIGNALS)
    working = [s for s in SIGNALS if s not in broken]
    say("hooks", "ok" if working else "missing", ", ".join(working) or "none could be installed", True)
    no_device = device.missing(torch)
    say("gpu_time", "missing" if no_device else "ok", no_device or "CUDA events on the training's own streams")


def main() -> None:
    check_python()
    check_injection()
    check_customize()
    native = check_native()
    torch = import_torch()
    if torch is not None:
        check_distributed(torch)
        if native:
            check_hooks(torch)


if __name__ == "__main__":
    main()

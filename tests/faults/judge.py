"""The rules of faults.json, word for word: which summary is right for an entry with its fault on or off."""

from __future__ import annotations

import os
import re
from pathlib import Path

EXEMPT = ("HIGH_CPU", "CPU_CONTENTION")
STEP_TOLERANCE = 2


def loader_workers(script: Path) -> int:
    """Loader workers per rank that a script starts."""
    return max((int(n) for n in re.findall(r"num_workers=(\d+)", script.read_text())), default=0)


def fills_cores(entry: dict, script: Path) -> bool:
    return entry["ranks"] * (1 + loader_workers(script)) >= (os.cpu_count() or 1)


def loud(findings: list[dict]) -> list[dict]:
    return [f for f in findings if f["severity"] in ("warn", "crit")]


def matches(finding: dict, truth: dict, judge_step: bool = True) -> bool:
    """Is this finding the one that the entry asks for?"""
    if finding["kind"] not in truth["kinds"]:
        return False
    if truth["cause"] is not None and finding["cause"] != truth["cause"]:
        return False
    if truth["phase"] is not None and finding["phase"] != truth["phase"]:
        return False
    ranks = set(finding["ranks"])
    if not ranks and finding["scope"] != "job":
        return False
    if not ranks <= set(truth["ranks"]):
        return False
    if judge_step and truth["since_step"] is not None:
        first = finding["steps"]["first"]
        if first is None or abs(first - truth["since_step"]) > STEP_TOLERANCE:
            return False
    return True


def problems(entry: dict, fault_on: bool, findings: list[dict], script: Path) -> list[str]:
    """What is wrong with these findings; empty = right."""
    truth, wrong = entry["finding"], []
    exempt = (*truth.get("also", ()), *(EXEMPT if fills_cores(entry, script) else ()))
    said = loud(findings)
    if not fault_on or not truth["kinds"]:
        return [
            f"should be silent: {f['kind']} {f['severity']} ranks {f['ranks']} phase {f['phase']}"
            for f in said
            if f["kind"] not in exempt
        ]
    if not any(matches(f, truth) for f in said):
        near = [f for f in said if matches(f, truth, judge_step=False)]
        if near:
            wrong.append(f"first step {near[0]['steps']['first']}, expected {truth['since_step']} ± {STEP_TOLERANCE}")
        else:
            wrong.append(f"no warn or crit finding of {'/'.join(truth['kinds'])} with the right cause, phase and ranks")
    for f in said:
        others = sorted(set(f["ranks"]) - set(truth["ranks"]))
        if others:
            wrong.append(f"{f['kind']} {f['severity']} names rank {others}")
    return wrong


def best(entry: dict, findings: list[dict]) -> dict | None:
    """The finding to show in a table: the right one, else the loudest."""
    said = loud(findings)
    return next((f for f in said if matches(f, entry["finding"], judge_step=False)), said[0] if said else None)

"""Scores of the fault bench: what was said of each run against its truth. Pure: plain values in, figures out.

A run with its fault on is right (a true positive) when a root finding of warn or crit has a right kind and names right ranks only.
A false positive is every other root finding of warn or crit, whether beside a right one, with the fault off or in a healthy job,
but for kinds that are right as well (``also``) or that the machine brings about by itself (``exempt``). Findings that another one
explains are symptoms and count for nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from bench_entries import Entry

LOUD = ("warn", "crit")
HEALTHY = ("COMPUTE_BOUND", "BALANCED")
LOSS_SHARE = 0.10  # from which on "healthy" is false


@dataclass
class Judged:
    """What one run is worth. ``found``: the finding that is right; ``cause``: right, unknown, wrong, or "" where none is asked."""

    wanted: bool
    found: dict | None
    false: list[dict]
    cause: str = ""
    false_healthy: bool = False
    steps_until: int | None = None


@dataclass
class Score:
    """Sums over runs."""

    right: int = 0
    missed: int = 0
    false: int = 0
    silent_right: int = 0
    false_healthy: int = 0
    causes: Counter = field(default_factory=Counter)
    steps_until: list[int] = field(default_factory=list)

    @property
    def precision(self) -> float:
        return self.right / (self.right + self.false) if self.right + self.false else float("nan")

    @property
    def recall(self) -> float:
        return self.right / (self.right + self.missed) if self.right + self.missed else float("nan")

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both > 0 else 0.0


def is_right(finding: dict, entry: Entry) -> bool:
    """Is it what the truth asks for?"""
    if f"ADVICE:{finding['cause']}" in entry.kinds and finding["kind"] == "ADVICE":
        return True
    if finding["severity"] not in LOUD or finding["kind"] not in entry.kinds:
        return False
    return entry.ranks is None or set(finding["ranks"]) <= set(entry.ranks)


def judge_run(entry: Entry, fault_on: bool, findings: list[dict]) -> Judged:
    """Judges the findings of one run; each has kind, severity, ranks, cause, explained_by, steps, cost."""
    wanted = fault_on and bool(entry.kinds)
    roots = [f for f in findings if f["severity"] in LOUD and not f.get("explained_by")]
    found = next((f for f in findings if is_right(f, entry)), None) if wanted else None
    # In a control a kind that is right with the fault on is false; what is right beside it may stay.
    fine = {*entry.also, *entry.exempt, *(entry.kinds if wanted else ())}
    false = [f for f in roots if f is not found and f["kind"] not in fine]
    if wanted and entry.ranks is not None:
        false += [f for f in roots if f["kind"] in entry.kinds and set(f["ranks"]) - set(entry.ranks)]
    judged = Judged(wanted, found, false)
    if found and entry.cause:
        said = found["cause"]
        judged.cause = "right" if said == entry.cause else "unknown" if said in (None, "unknown") else "wrong"
    lost = wanted and entry.lost_share is not None and entry.lost_share[0] >= LOSS_SHARE
    told = any(f["severity"] in LOUD or (f.get("cost") or {}).get("share") for f in findings)
    judged.false_healthy = bool(lost and not told and any(f["kind"] in HEALTHY for f in findings))
    detected = found["steps"].get("detected") if found else None
    if detected is not None and entry.first_step is not None:
        judged.steps_until = max(0, detected - entry.first_step)
    return judged


def total(all_judged: list[Judged]) -> Score:
    """Sums them up."""
    score = Score()
    for j in all_judged:
        score.right += j.found is not None
        score.missed += j.wanted and j.found is None
        score.false += len(j.false)
        score.silent_right += not j.wanted and not j.false
        score.false_healthy += j.false_healthy
        if j.cause:
            score.causes[j.cause] += 1
        if j.steps_until is not None:
            score.steps_until.append(j.steps_until)
    return score

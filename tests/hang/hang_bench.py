#!/usr/bin/env python3
"""Jobs that stand still, on CPU: which rank, why, after how many seconds, and the launch command's own exit code.

    hang_bench.py --out build/hang-bench [--faults sleeps,…] [--lanes 2] [--minutes 60]     goes on where it stopped
    hang_bench.py --out build/hang-bench --score                                            no run: the table

Each fault with two ranks and three seeds, and with four ranks and one: a seed chooses the rank and the step. Every pair of fault
and number of ranks also runs bare, for the exit code. `healthy`: twenty runs with a first step that compiles, long validation
and saves; no HANG. Results are one JSON line per run in OUT/runs.jsonl. Leaves with 1 when anything is wrong.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from drivers import quiet
from jobs import Job, observed, run, summary, torchrun

JOB = Path(__file__).resolve().parent / "job.py"
TIMEOUT_S = 20.0
HEALTHY = 20


class Truth(NamedTuple):
    kind: str  # or several, as "A|B"
    causes: frozenset[str]  # any of them
    place: str = ""  # in the culprit's line of code, or the title
    alone: bool = True  # the culprit is named alone; else among others


def truth(kind: str, *causes: str, place: str = "", alone: bool = True) -> Truth:
    return Truth(kind, frozenset(causes), place, alone)


TRUTHS = {
    "sleeps": truth("HANG", "rank_silent", place="sleeps"),
    "loops": truth("HANG", "rank_silent", place="loops"),
    "holds_the_gil": truth("HANG", "gil_held", place="holds_the_gil"),
    "stops": truth("HANG", "stopped"),
    "is_killed": truth("RANK_LOST", "signal_9", "killed"),
    "raises": truth("RANK_LOST", "exception", place="ValueError: bad batch"),
    "calls_another": truth("HANG", "mismatched_collective", "uneven_steps", alone=False),
    # Gloo waits, or ends a rank, as it comes: either way both sides are to be named.
    "another_size": truth("HANG|RANK_LOST", "mismatched_collective", "uneven_steps", alone=False),
    "skips_a_step": truth("HANG|RANK_LOST", "uneven_steps", "mismatched_collective", alone=False),
    "has_more_batches": truth("HANG|RANK_LOST", "uneven_steps", "mismatched_collective", alone=False),
    "has_fewer_batches": truth("HANG|RANK_LOST", "uneven_steps", "mismatched_collective", alone=False),
    "saves_long": truth("TIMEOUT_AHEAD", place="__reduce__"),
    "starts_late": truth("LATE_START"),  # a HANG while it lasts, withdrawn when it comes
}


class Case(NamedTuple):
    fault: str
    ranks: int
    seed: int

    @property
    def key(self) -> str:
        return f"{self.fault}-{self.ranks}-{self.seed}"

    @property
    def who(self) -> int:
        return random.Random(f"{self.fault} {self.seed}").randrange(self.ranks)

    @property
    def step(self) -> int:
        return random.Random(f"{self.seed} {self.fault}").randrange(11, 40)

    @property
    def environment(self) -> dict[str, str]:
        if self.fault != "healthy":
            return {"HANG_SECONDS": str(TIMEOUT_S)}
        choose = random.Random(self.seed)
        pauses = choose.uniform(4, 15), choose.uniform(3, 9), choose.uniform(2, 7)
        return {"HANG_SECONDS": "60", "PAUSES": ",".join(f"{s:.1f}" for s in pauses)}

    def words(self) -> list[str]:
        return [str(JOB), self.fault, str(self.who), str(self.step)]


def cases() -> list[Case]:
    faults = [
        Case(fault, ranks, seed) for fault in TRUTHS for ranks, seeds in ((2, 3), (4, 1)) for seed in range(seeds)
    ]
    return faults + [Case("healthy", 2, seed) for seed in range(HEALTHY)]


def judged(case: Case, told: dict[str, Any] | None, stderr: str) -> tuple[dict[str, Any], list[str]]:
    """What was said of the fault, and what of it is wrong."""
    if told is None:
        return {}, ["no summary"]
    hangs = [f for f in told["findings"] if f["kind"] == "HANG"]
    if case.fault == "healthy":
        said = bool(hangs) or "HANG" in stderr
        return {}, ["HANG of a healthy job"] if said else []
    right = TRUTHS[case.fault]
    if right.kind == "TIMEOUT_AHEAD":  # withdrawn when the wait ends in time
        line = next((li for li in stderr.splitlines() if "TIMEOUT AHEAD" in li), "")
        wrong = [] if f"Rank {case.who} is busy" in line and right.place in line else [f"said: {line}"]
        return {"title": line}, wrong
    kinds = right.kind.split("|")
    found = [f for f in told["findings"] if f["kind"] in ("HANG", *kinds) and f["severity"] == "crit"]
    if not found:
        others = ", ".join(f["kind"] for f in told["findings"])
        return {}, [f"no {right.kind} among {others}"]
    first = next((f for f in found if f["kind"] in kinds), found[0])
    wrong = []
    ranks = first["ranks"]
    if case.who not in ranks or (right.alone and ranks != [case.who]):
        wrong.append(f"ranks {ranks}")
    # A rank that is on its way out may be seen as a hang of that very cause.
    outgoing = first["kind"] == "HANG" and "HANG" not in kinds and first["cause"] == "rank_exited"
    if right.causes and first["cause"] not in right.causes and not outgoing:
        wrong.append(f"cause {first['cause']}")
    places = [e["text"] for e in first["evidence"] if e["name"] == "where" and e.get("rank") == case.who]
    if right.place and not any(re.search(right.place, text) for text in [*places, first["title"]]):
        wrong.append(f"place {places}")
    return {"kind": first["kind"], "title": first["title"], "cause": first["cause"], "ranks": ranks}, wrong


def watch(case: Case, out: Path) -> dict[str, Any]:
    logs = out / "logs"
    shutil.rmtree(logs / case.key, ignore_errors=True)
    command = observed(logs, case.key, "--", *torchrun(case.ranks, *case.words()))
    job = Job(command, quiet(CUDA_VISIBLE_DEVICES="", **case.environment))
    began = time.monotonic() - time.time()
    try:
        done = job.finish(240)
    finally:
        job.bury()
    wall = [float(at) for _, line in job.lines() for at in re.findall(r"fault (\d+\.\d+)", line)]
    words = ("HANG", "TIMEOUT AHEAD", "RANK LOST")
    at = next((at for at, line in job.complaints() if any(word in line for word in words)), None)
    row: dict[str, Any] = {"case": case.key, "rank": case.who, "step": case.step, "rc": done.rc}
    row["said_after_s"] = round(at - began - max(wall), 1) if at and wall else None
    facts, row["wrong"] = judged(case, summary(logs / case.key), done.stderr)
    if case.fault == "healthy" and done.rc != 0:
        row["wrong"].append(f"exit code {done.rc}")
    return row | facts


def bare_rc(fault: str, ranks: int) -> int:
    case = Case(fault, ranks, 0)
    env = quiet(CUDA_VISIBLE_DEVICES="", **case.environment)
    return run(torchrun(ranks, *case.words()), env, timeout_s=240).rc


class Kept:
    """Results so far; lines are added by several threads."""

    def __init__(self, path: Path) -> None:
        self.path, self.lock = path, threading.Lock()
        lines = path.read_text().splitlines() if path.exists() else []
        self.rows = {row["case"]: row for row in map(json.loads, lines)}

    def add(self, row: dict[str, Any]) -> None:
        with self.lock, self.path.open("a") as file:
            file.write(json.dumps(row) + "\n")
            self.rows[row["case"]] = row
            print(json.dumps(row), flush=True)


def score(rows: dict[str, dict[str, Any]]) -> int:
    """Prints the table; the number of runs in which something was wrong."""
    failed = 0
    print(f"{'fault':20} {'ranks':>5} {'runs':>4} {'right':>5}  {'seconds from the fault to the word':36} exit codes")
    for fault in [*TRUTHS, "healthy"]:
        for ranks in (2, 4):
            found = [rows[c.key] for c in cases() if (c.fault, c.ranks) == (fault, ranks) and c.key in rows]
            if not found:
                continue
            own = rows.get(f"bare-{fault}-{ranks}", {}).get("rc")
            for row in found:
                if own is not None and row["rc"] != own:
                    row["wrong"] = [*row["wrong"], f"exit code {row['rc']}, bare {own}"]
            right = sum(not row["wrong"] for row in found)
            failed += len(found) - right
            after = ", ".join(str(row["said_after_s"]) for row in found if row["said_after_s"] is not None)
            codes = sorted({row["rc"] for row in found})
            print(
                f"{fault:20} {ranks:5} {len(found):4} {right:5}  {after:36} {codes}{f', bare {own}' if own is not None else ''}"
            )
            for row in found:
                if row["wrong"]:
                    print(
                        f"    {row['case']} rank {row['rank']} step {row['step']}: {'; '.join(row['wrong'])}; {row.get('title', '')}"
                    )
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--faults", default="", help="only these, comma-separated")
    parser.add_argument("--lanes", type=int, default=2, help="jobs side by side")
    parser.add_argument("--minutes", type=float, default=60, help="no run begins later")
    parser.add_argument("--score", action="store_true", help="run nothing")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    kept = Kept(options.out / "runs.jsonl")
    wanted = set(filter(None, options.faults.split(",")))
    todo = [c for c in cases() if not wanted or c.fault in wanted]
    until = time.monotonic() + 60 * options.minutes

    def one(case: Case) -> None:
        if time.monotonic() >= until:
            return
        if case.key not in kept.rows:
            kept.add(watch(case, options.out))
        key = f"bare-{case.fault}-{case.ranks}"
        if case.seed == 0 and case.fault != "healthy" and key not in kept.rows:
            kept.add({"case": key, "rc": bare_rc(case.fault, case.ranks)})

    if not options.score:
        with ThreadPoolExecutor(options.lanes) as lanes:
            list(lanes.map(one, todo))
    return int(score(kept.rows) > 0)


if __name__ == "__main__":
    raise SystemExit(main())

#!/usr/bin/env python3
"""Runs the fault lab (faults.json) through `stepscope run` and judges every summary.

    run_faults.py --stage 1                     all entries of stage 1, both tools, fault on and off
    run_faults.py --ids X0,R16 --tool stepscope --fault on --keep /tmp/lab

Prints a row per run and, for a wrong one, its findings as JSON. Exit code 1 when anything is wrong.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import judge

from drivers import bare, brief, key_values, observe, table
from jobs import Outcome

HERE = Path(__file__).resolve().parent
SCRIPTS = HERE / "scripts"
NORMAL_END = ("control", "slow", "memory", "numerics")  # classes whose job ends with 0 although the fault is on
HEADER = ["id", "tool", "fault", "expected", "got", "first", "detected", "cost", "unattr", "rc", "ok"]


@dataclass
class Verdict:
    entry: dict
    tool: str
    fault_on: bool
    outcome: Outcome
    wrong: list[str]

    def row(self) -> list[str]:
        truth, summary = self.entry["finding"], self.outcome.summary or {}
        expected = "/".join(truth["kinds"]) if self.fault_on and truth["kinds"] else "silent"
        best = judge.best(self.entry, summary.get("findings", []))
        got, first, detected, cost = "silent", "", "", ""
        if best:
            ranks = ",".join(map(str, best["ranks"])) or "job"
            got = f"{best['kind']} {best['severity']} r{ranks} {best['phase'] or ''}".strip()
            first, detected = str(best["steps"]["first"]), str(best["steps"]["detected"])
            cost = f"{best['cost']['share']:.3f}" if best["cost"]["share"] is not None else ""
        share = ((summary.get("ledger") or {}).get("job") or {}).get("unattributed", {}).get("share")
        return [
            self.entry["id"],
            self.tool,
            "on" if self.fault_on else "off",
            expected,
            got,
            first,
            detected,
            cost,
            "" if share is None else f"{share:.3f}",
            str(self.outcome.rc),
            "ok" if not self.wrong else "WRONG",
        ]


def lab_lines(outcome: Outcome) -> Counter:
    """(rank, first word) of each LAB line; `done` carries its step count."""
    seen: Counter = Counter()
    for line in outcome.lines("LAB "):
        rank = key_values(line).get("rank", "?")
        words = line.split(f"rank={rank} ", 1)[-1].split()
        seen[(rank, words[0] if words[0] != "done" else " ".join(words[:2]))] += 1
    return seen


def missing_lines(entry: dict, fault_on: bool, steps: int, outcome: Outcome) -> list[str]:
    """LAB lines that the script must have printed whatever the timing, and that are not there."""
    seen = lab_lines(outcome)
    required = [(str(r), "start") for r in range(entry["ranks"])]
    if not (fault_on and entry["class"] not in NORMAL_END) and not entry.get("signal"):
        per_rank = steps // 50 * 50 if entry["script"].startswith("r05") else steps
        required += [(str(r), f"done steps={per_rank}") for r in range(entry["ranks"])]
        required += [(str(r), "exit") for r in range(entry["ranks"])]
    elif fault_on and "fault now" in (SCRIPTS / entry["script"]).read_text() and entry["class"] == "crash":
        required += [(str(r), "fault") for r in entry["finding"]["ranks"]]
    return [f"LAB line missing: rank {r} {what}" for r, what in required if not seen[(r, what)]]


def through(outcome: Outcome) -> bool:
    """The training came to its end."""
    return any(what.startswith("done") for _, what in lab_lines(outcome))


def expected_rc(
    entry: dict, fault_on: bool, args: list[str], timeout_s: float, always: bool, cache: dict, ended: bool
) -> int | None:
    """Exit code of the bare launch: known to be 0 for jobs that end by themselves, else found out once. None: a signal at a
    fixed time came when one of the two launches was done or leaving, so that their codes say nothing about each other."""
    if not always and not entry.get("signal") and not (fault_on and entry["class"] not in NORMAL_END):
        return 0
    key = (entry["id"], fault_on)
    if key not in cache:
        cache[key] = bare(
            SCRIPTS / entry["script"], args, entry["ranks"], timeout_s=timeout_s, signal_after=signal_of(entry)
        )
    return None if entry.get("signal") and (ended or through(cache[key])) else cache[key].rc


def signal_of(entry: dict) -> tuple[int, float] | None:
    s = entry.get("signal")
    return (getattr(signal, s["name"]), float(s["after_s"])) if s else None


def run_one(
    entry: dict,
    tool: str,
    fault_on: bool,
    steps: int | None,
    logs: Path,
    timeout_s: float,
    always_bare: bool,
    cache: dict,
) -> Verdict:
    count = steps or entry["steps"]
    args = [*entry["args"].split(), "--fault", "on" if fault_on else "off", "--steps", str(count), "--seed", "0"]
    name = f"{entry['id'].replace('@', '_')}-{tool}-{'on' if fault_on else 'off'}"
    env = {"FAULT_TOOL": "stepscope"} if tool == "stepscope" else {}
    outcome = observe(
        SCRIPTS / entry["script"],
        args,
        entry["ranks"],
        logs=logs,
        name=name,
        env=env,
        timeout_s=timeout_s,
        signal_after=signal_of(entry),
    )
    if outcome.folder:
        (outcome.folder / "stdout.txt").write_text(outcome.stdout)
    wrong = ["timed out"] if outcome.timed_out else []
    if outcome.summary is None:
        wrong.append("no final_summary.json")
    else:
        wrong += judge.problems(entry, fault_on, outcome.findings, SCRIPTS / entry["script"])
    wrong += missing_lines(entry, fault_on, count, outcome)
    bare_rc = expected_rc(entry, fault_on, args, timeout_s, always_bare, cache, through(outcome))
    if bare_rc is not None and outcome.rc != bare_rc:
        wrong.append(f"exit code {outcome.rc}, the bare launch gives {bare_rc}")
    return Verdict(entry, tool, fault_on, outcome, wrong)


def explain(v: Verdict) -> str:
    out = [f"-- {v.entry['id']} tool={v.tool} fault={'on' if v.fault_on else 'off'}: " + "; ".join(v.wrong)]
    out += ["   " + json.dumps(f) for f in v.outcome.findings if f["severity"] != "info"]
    out += ["   info: " + brief(f) for f in v.outcome.findings if f["severity"] == "info"]
    if v.outcome.rc != 0 or v.outcome.summary is None:
        out += ["   stderr: " + line for line in v.outcome.stderr.splitlines()[-12:]]
    return "\n".join(out)


def entries(stage: int | None, ids: str | None) -> list[dict]:
    every = json.loads((HERE / "faults.json").read_text())["faults"]
    wanted = ids.split(",") if ids else None
    if wanted and (unknown := set(wanted) - {e["id"] for e in every}):
        sys.exit(f"no such entry: {', '.join(sorted(unknown))}")
    return [e for e in every if (e["id"] in wanted if wanted else stage is None or e["stage"] == stage)]


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--stage", type=int)
    p.add_argument("--ids")
    p.add_argument("--tool", choices=["stepscope", "none", "both"], default="both")
    p.add_argument("--fault", choices=["on", "off", "both"], default="both")
    p.add_argument("--steps", type=int, help="steps of each run instead of those of faults.json")
    p.add_argument("--timeout", type=float, default=300, help="seconds per run")
    p.add_argument(
        "--bare", action="store_true", help="compare every exit code with a bare launch, not only those that may differ"
    )
    p.add_argument("--keep", type=Path, help="keep the run folders here")
    a = p.parse_args()
    verdicts: list[Verdict] = []
    cache: dict = {}
    with tempfile.TemporaryDirectory(prefix="stepscope-faults-") as scratch:
        logs = a.keep or Path(scratch)
        logs.mkdir(parents=True, exist_ok=True)
        for entry in entries(a.stage, a.ids):
            for tool in ("stepscope", "none") if a.tool == "both" else (a.tool,):
                for fault_on in (True, False) if a.fault == "both" else (a.fault == "on",):
                    v = run_one(entry, tool, fault_on, a.steps, logs, a.timeout, a.bare, cache)
                    verdicts.append(v)
                    print("  ".join(v.row()), flush=True)
                    if v.wrong:
                        print(explain(v), flush=True)
    right = sum(not v.wrong for v in verdicts)
    print("\n" + table([v.row() for v in verdicts], HEADER))
    print(f"\n{right}/{len(verdicts)} right")
    return 0 if right == len(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())

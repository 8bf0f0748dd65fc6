#!/usr/bin/env python3
"""Runs that do not end by themselves: SIGKILL of a rank in a known phase, Ctrl-C, SIGTERM.

Checks: exit code as torchrun's own (a wrapper inside `stepscope run` records it), the launcher ends within 5 s after torchrun
(within 1 s when the user stopped it), RANK_LOST with rank, last step and phase, the right status.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from drivers import brief, key_values, quiet, read
from jobs import Job, Outcome, observed, python, torchrun

HERE = Path(__file__).resolve().parent
PHASES = {"input": "input_wait", "forward": "forward", "backward": "backward", "optimizer": "optimizer"}
SLOW_MS = 400.0


def start(logs: Path, name: str, args: list[str]) -> Job:
    wrapper = [python(), HERE / "wrapper.py", logs / f"{name}.rc"]
    return Job(observed(logs, name, "--", *wrapper, *torchrun(2, HERE / "job.py", *args)), quiet())


def end(job: Job, logs: Path, name: str, timeout_s: float) -> tuple[Outcome, dict, int]:
    """Outcome, the wrapper's record, the last step that rank 1 printed."""
    outcome = read(job.finish(timeout_s), logs / name)
    job.bury()
    record = logs / f"{name}.rc"
    own = json.loads(record.read_text()) if record.exists() else {}
    steps = [int(v["step"]) for v in map(key_values, outcome.lines("TRUTH rank=1")) if "step" in v]
    return outcome, own, max(steps, default=-1)


def pid_of(job: Job, rank: int) -> int:
    for _, line in job.lines():
        values = key_values(line)
        if line.startswith("TRUTH") and values.get("rank") == str(rank) and "pid" in values:
            return int(values["pid"])
    raise LookupError(f"rank {rank} did not say its pid")


def common(outcome: Outcome, own: dict, within_s: float) -> list[str]:
    wrong = ["timed out"] if outcome.timed_out else []
    if not own:
        return [*wrong, "the launch command's end was not recorded"]
    if outcome.rc != own["rc"]:
        wrong.append(f"exit code {outcome.rc}, the launch command's was {own['rc']}")
    late = outcome.ended - own["ended"]
    if late > within_s:
        wrong.append(f"launcher ended {late:.2f} s after the launch command")
    if outcome.summary is None:
        wrong.append("no summary")
    return wrong


def report(name: str, wrong: list[str], outcome: Outcome, own: dict, facts: str) -> bool:
    late = outcome.ended - own["ended"] if own else float("nan")
    status = (outcome.summary or {}).get("run", {}).get("status")
    print(
        f"{name}: rc {outcome.rc} (own {own.get('rc')}), launcher {late:.2f} s later, status {status}, {facts}: "
        + ("ok" if not wrong else "WRONG: " + "; ".join(wrong)),
        flush=True,
    )
    if wrong:
        for f in outcome.findings:
            print("   " + (json.dumps(f) if f["severity"] != "info" else "info: " + brief(f)))
        print("   stderr: " + "\n   ".join(outcome.stderr.splitlines()[-10:]))
    return not wrong


def kill_rank(logs: Path, phase: str) -> bool:
    """Rank 1 is killed in the middle of a long sleep in one phase."""
    name = f"kill-{phase}"
    job = start(
        logs, name, ["--steps", "4000", "--base-ms", "8", "--fault", f"1:{phase}:{SLOW_MS}:sleep", "--say-every", "1"]
    )
    if job.wait_for("rank=1 step=12", 120):
        time.sleep(SLOW_MS / 2e3)
        os.kill(pid_of(job, 1), signal.SIGKILL)
    outcome, own, last = end(job, logs, name, 90)
    wrong = common(outcome, own, 5.0)
    lost = [f for f in outcome.findings if f["kind"] == "RANK_LOST"]
    if not lost or lost[0]["ranks"] != [1] or lost[0]["severity"] != "crit":
        wrong.append("no crit RANK_LOST of rank 1")
    else:
        f = lost[0]
        if f["steps"]["first"] is None or abs(f["steps"]["first"] - (last + 1)) > 1:
            wrong.append(f"lost in step {f['steps']['first']}, the script completed step {last}")
        if f["phase"] != PHASES[phase]:
            wrong.append(f"phase {f['phase']}, it was in {PHASES[phase]}")
        if (outcome.summary or {}).get("primary", {}).get("kind") != "RANK_LOST":
            wrong.append("RANK_LOST is not the primary finding")
    if outcome.summary and outcome.summary["run"]["status"] != "crashed":
        wrong.append(f"status {outcome.summary['run']['status']}")
    return report(name, wrong, outcome, own, f"last step {last}, " + (lost[0]["title"] if lost else "no RANK_LOST"))


def interrupt(logs: Path, number: int, whole_group: bool) -> bool:
    """A healthy job is told to stop, by Ctrl-C (whole group) or by a scheduler (launcher only)."""
    name = f"{signal.Signals(number).name.lower()}-{'group' if whole_group else 'launcher'}"
    job = start(logs, name, ["--steps", "20000", "--base-ms", "15", "--say-every", "1"])
    if job.wait_for("rank=1 step=40", 120):
        if whole_group:
            job.signal_group(number)
        else:
            os.kill(job.process.pid, number)
    outcome, own, last = end(job, logs, name, 90)
    wrong = common(outcome, own, 1.0)
    if outcome.summary:
        if outcome.summary["run"]["status"] != "interrupted":
            wrong.append(f"status {outcome.summary['run']['status']}")
        if lost := [brief(f) for f in outcome.loud() if f["kind"] == "RANK_LOST"]:
            wrong.append("an interrupted rank is not lost: " + "; ".join(lost))
        if abs(outcome.summary["steps"]["count"] - (last + 1)) > 1:
            wrong.append(f"{outcome.summary['steps']['count']} steps, the script completed {last + 1}")
    return report(name, wrong, outcome, own, f"last step {last}")


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument(
        "--only", help="comma-separated: kill-forward, kill-backward, kill-optimizer, kill-input, ctrl-c, sigterm"
    )
    p.add_argument("--keep", type=Path)
    a = p.parse_args()
    with tempfile.TemporaryDirectory(prefix="stepscope-kill-") as scratch:
        logs = a.keep or Path(scratch)
        logs.mkdir(parents=True, exist_ok=True)
        cases = {
            f"kill-{phase}": lambda phase=phase: kill_rank(logs, phase)
            for phase in ("forward", "backward", "optimizer", "input")
        }
        cases["ctrl-c"] = lambda: interrupt(logs, signal.SIGINT, True)
        cases["sigterm"] = lambda: interrupt(logs, signal.SIGTERM, False)
        wanted = a.only.split(",") if a.only else list(cases)
        results = [cases[name]() for name in wanted]
    print(f"{sum(results)}/{len(results)} right")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())

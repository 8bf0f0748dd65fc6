#!/usr/bin/env python3
"""The ledger against a script's own clock.

For each place of ledger_job.py one second is spent there once, on one rank. The rank's ledger must show it in that category
within 10 %, measured against the same job without it. The categories of every rank must add up to its wall time: exactly to
that of our marks, and within 0.1 % and a few ms to the script's (steps: first step begin to last step end; process: start to
end, seen from outside). unattributed stays <= 5 % of the steps.
"""

from __future__ import annotations

import argparse
import os
import select
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from drivers import key_values, quiet, read, table
from jobs import Job, Outcome, observed

SCRIPT = Path(__file__).resolve().parent / "ledger_job.py"
PLACES = (
    "input_wait",
    "h2d",
    "forward",
    "backward",
    "optimizer",
    "straggler_wait",
    "host_pause",
    "compile",
    "checkpoint",
    "validation",
    "validation_inner",
    "logging",
    "epoch_start",
    "user_code",
    "startup",
    "teardown",
    "unattributed",
)
WALL_TOLERANCE, LANDS_TOLERANCE, MAX_UNATTRIBUTED = 0.001, 0.10, 0.05
SLICE_MS = 3.0  # the machine may take the core away between the script's look at its clock and our mark, at either end
TICK_S = 0.011  # /proc tells a process start only to 10 ms
CATEGORY = {"validation_inner": "validation"}  # places whose category has another name: evaluation past the DDP wrapper


@dataclass
class Measured:
    outcome: Outcome
    truth: dict[int, dict[str, float]]  # the script's TRUTH line per rank
    gone: dict[int, float] = field(default_factory=dict)  # pid → when the process was gone

    def ledger(self, rank: int) -> dict:
        return next(r for r in self.outcome.summary["ledger"]["ranks"] if r["rank"] == rank)

    def ms(self, rank: int, category: str) -> float:
        return float(self.ledger(rank)["categories"][category] or 0.0)


class DeathWatch:
    """Notes when processes end, by pidfd."""

    def __init__(self) -> None:
        self.gone: dict[int, float] = {}
        self._threads: list[threading.Thread] = []

    def watch(self, line: str) -> None:
        pid = key_values(line).get("pid") if line.startswith("TRUTH") else None
        if pid:
            t = threading.Thread(target=self._wait, args=(int(pid),), daemon=True)
            t.start()
            self._threads.append(t)

    def _wait(self, pid: int) -> None:
        try:
            fd = os.pidfd_open(pid)
        except OSError:
            return
        select.select([fd], [], [], 60)
        self.gone[pid] = time.monotonic()
        os.close(fd)

    def join(self) -> None:
        for t in self._threads:
            t.join(5)


def measure(logs: Path, name: str, args: list[str]) -> Measured:
    watch = DeathWatch()
    job = Job(observed(logs, name, "--nproc-per-node", "2", SCRIPT, *args), quiet(), on_line=watch.watch)
    outcome = read(job.finish(120), logs / name)
    job.bury()
    watch.join()
    truth = {}
    for line in outcome.lines("TRUTH "):
        values = {k: float(v) for k, v in key_values(line).items()}
        truth[int(values["rank"])] = values
    return Measured(outcome, truth, watch.gone)


def wall_errors(m: Measured) -> list[str]:
    """Sums against the script's clock, per rank."""
    if m.outcome.summary is None or len(m.truth) < 2:
        return ["no summary or no truth: " + m.outcome.stderr[-800:]]
    wrong = []
    for rank, t in m.truth.items():
        row, total = m.ledger(rank), sum(v or 0.0 for v in m.ledger(rank)["categories"].values())
        steps_ms = 1e3 * (t["end"] - t["begin"])
        in_steps = total - m.ms(rank, "startup") - m.ms(rank, "teardown")
        if abs(in_steps - row["steps_wall_ms"]) > 0.01:
            wrong.append(
                f"rank {rank} categories within steps {in_steps:.3f} ms, steps_wall_ms {row['steps_wall_ms']:.3f}"
            )
        for what, ours in (("steps_wall_ms", row["steps_wall_ms"]), ("categories within steps", in_steps)):
            if abs(ours - steps_ms) > WALL_TOLERANCE * steps_ms + SLICE_MS:
                wrong.append(f"rank {rank} {what} {ours:.2f} ms, by the script's clock {steps_ms:.2f}")
        gone = m.gone.get(int(t["pid"]))
        if gone:
            process_ms = 1e3 * (gone - t["start"])
            if abs(total - process_ms) > WALL_TOLERANCE * process_ms + 1e3 * TICK_S:
                wrong.append(f"rank {rank} ledger sum {total:.1f} ms, process lived {process_ms:.1f}")
        if abs(total - row["wall_ms"]) > 0.01:
            wrong.append(f"rank {rank} categories add up to {total:.3f}, wall_ms {row['wall_ms']:.3f}")
    return wrong


def unattributed(m: Measured, rank: int) -> float:
    return m.ms(rank, "unattributed") / m.ledger(rank)["steps_wall_ms"]


def args_of(place: str, trace: bool) -> list[str]:
    args = ["--inject", place] + (["--trace"] if trace else [])
    if place == "epoch_start":
        args += ["--workers", "1"]
    if place == "compile":
        args += ["--compile"]
    if place == "straggler_wait":
        args += ["--rank", "1"]  # rank 0 waits
    return args


def landed(place: str, m: Measured, base: Measured) -> tuple[float, float]:
    """(what the ledger shows in this category, what the script's clock says), both in ms, on rank 0."""
    t = m.truth[0]
    if place == "startup":
        return m.ms(0, place), 1e3 * (t["begin"] - t["start"])
    if place == "teardown":
        return m.ms(0, place), 1e3 * (m.gone[int(t["pid"])] - t["end"])
    spent = m.truth[1 if place == "straggler_wait" else 0]["took"]
    if place == "epoch_start":
        spent = 1.0  # spent in the worker, whose clock is not ours
    if place == "compile":
        spent -= base.truth[0]["took"]  # the base compiles the same function, without the delay
    category = CATEGORY.get(place, place)
    return m.ms(0, category) - base.ms(0, category), 1e3 * spent


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--places", default=",".join(PLACES))
    p.add_argument("--mode", choices=["trace", "zero", "both"], default="both", help="with trace_step, zero-code")
    p.add_argument("--keep", type=Path)
    a = p.parse_args()
    rows, bad = [], 0
    with tempfile.TemporaryDirectory(prefix="stepscope-ledger-") as scratch:
        logs = a.keep or Path(scratch)
        for trace in {"trace": [True], "zero": [False], "both": [True, False]}[a.mode]:
            mode = "trace" if trace else "zero"
            bases: dict[tuple, Measured] = {}
            for place in a.places.split(","):
                args = args_of(place, trace)
                variant = tuple(x for x in args if x in ("--workers", "--compile"))
                if variant not in bases:
                    extra = ["--workers", "1"] if "--workers" in variant else ["--compile"] if variant else []
                    base = bases[variant] = measure(
                        logs, f"{mode}-base{len(bases)}", (["--trace"] if trace else []) + extra
                    )
                    wrong = wall_errors(base)
                    share = unattributed(base, 0) if base.outcome.summary else float("nan")
                    if share > MAX_UNATTRIBUTED:
                        wrong.append(f"unattributed {share:.3f}")
                    bad += bool(wrong)
                    rows.append(
                        [
                            mode,
                            "base " + " ".join(variant),
                            "",
                            "",
                            f"{share:.3f}",
                            "ok" if not wrong else "WRONG: " + "; ".join(wrong),
                        ]
                    )
                    print("  ".join(rows[-1]), flush=True)
                base = bases[variant]
                m = measure(logs, f"{mode}-{place}", args)
                wrong = wall_errors(m)
                shown = spent = float("nan")
                if base.outcome.summary and m.outcome.summary and len(m.truth) == 2:
                    shown, spent = landed(place, m, base)
                    if abs(shown - spent) > LANDS_TOLERANCE * 1000:
                        moved = {
                            c: round(m.ms(0, c) - base.ms(0, c))
                            for c in m.ledger(0)["categories"]
                            if abs(m.ms(0, c) - base.ms(0, c)) > 50
                        }
                        wrong.append(f"the difference to the base is in {moved}")
                bad += bool(wrong)
                rows.append(
                    [
                        mode,
                        place,
                        f"{spent:.0f}",
                        f"{shown:.0f}",
                        "",
                        "ok" if not wrong else "WRONG: " + "; ".join(wrong),
                    ]
                )
                print("  ".join(rows[-1]), flush=True)
    print("\n" + table(rows, ["mode", "place", "spent_ms", "shown_ms", "unattributed", "verdict"]))
    print(f"\n{len(rows) - bad}/{len(rows)} right")
    return 0 if bad == 0 else 1


if __name__ == "__main__":
    sys.exit(main())

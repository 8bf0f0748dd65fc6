#!/usr/bin/env python3
"""Waiting against transfer, held against a job that knows both (stalls_job.py).

In each step a random rank is late by a random time. The ledger's straggler_wait of every rank must be what the job knows it
waited, within 10 %, and comm_transfer what the data took once all were there (mode eager, by the job's own clock on both
sides of the call), within 10 %. With ddp the delays are known and not what the cores' turns added: only the wait is compared.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from drivers import key_values, observe, table

SCRIPT = Path(__file__).resolve().parent / "stalls_job.py"
TOLERANCE = 0.10


def run(mode: str, ranks: int, seed: int, always: int | None, logs: Path) -> tuple[list[list[str]], int]:
    arguments = ["--mode", mode, "--seed", str(seed), *([] if always is None else ["--always", str(always)])]
    outcome = observe(SCRIPT, arguments, ranks, logs=logs, name=f"{mode}-{ranks}-{seed}")
    truth = {int(v["rank"]): v for v in (key_values(line) for line in outcome.lines("TRUTH "))}
    if outcome.summary is None or len(truth) != ranks:
        return [[mode, str(ranks), "", "", "", "", "", "WRONG: no summary or no truth: " + outcome.stderr[-500:]]], 1
    rows, bad = [], 0
    for row in outcome.summary["ledger"]["ranks"]:
        known = truth[row["rank"]]
        for category, key in (("straggler_wait", "wait_ms"), ("comm_transfer", "transfer_ms")):
            true_ms, ours_ms = float(known[key]), float(row["categories"][category] or 0.0)
            if math.isnan(true_ms):
                continue
            # Who is always the last waits for nobody: of that rank what all its steps waited for together is the measure.
            off = (ours_ms - true_ms) / (true_ms if always != row["rank"] else float(known["transfer_ms"]))
            wrong = abs(off) > TOLERANCE
            bad += wrong
            rows.append(
                [
                    mode,
                    str(ranks),
                    str(row["rank"]),
                    category,
                    f"{true_ms:.0f}",
                    f"{ours_ms:.0f}",
                    f"{100 * off:+.1f} %",
                    "WRONG" if wrong else "ok",
                ]
            )
    return rows, bad


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--modes", default="eager,ddp")
    p.add_argument("--ranks", default="2")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--always", type=int, help="this rank is late in every step, which makes the agent ask for stamps")
    p.add_argument("--keep", type=Path)
    a = p.parse_args()
    rows, bad = [], 0
    with tempfile.TemporaryDirectory(prefix="stepscope-stalls-") as scratch:
        for mode in a.modes.split(","):
            for ranks in a.ranks.split(","):
                more, wrong = run(mode, int(ranks), a.seed, a.always, a.keep or Path(scratch))
                rows += more
                bad += wrong
    print(table(rows, ["mode", "ranks", "rank", "category", "true_ms", "ours_ms", "off", "verdict"]))
    print(f"\n{len(rows) - bad}/{len(rows)} right")
    return 0 if bad == 0 else 1


if __name__ == "__main__":
    sys.exit(main())

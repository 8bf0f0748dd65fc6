#!/usr/bin/env python3
"""Random stragglers: does the summary name the right rank and phase, and is a healthy job left alone?

    draws.py --seeds 1-20            20 draws, each an unfaulted and a faulted run
    draws.py --controls 5            healthy jobs of 2 to 4 ranks: no finding of warn or crit
    draws.py --pairs 1               two unequal stragglers at once: the worst is named, its saving goes down to the second

A draw: culprit rank, phase, size 20 to 100 % of the unfaulted step (itself 15 to 60 ms), sleep or CPU work, 2 to 4 ranks, with
and without trace_step. Its cost is measured by the script's own clock, (T_with - T_without) / T_with; a draw under 8 % is
printed and drawn again.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from drivers import brief, key_values, observe, table
from jobs import Outcome

JOB = Path(__file__).resolve().parent / "job.py"
PHASES = {"input": "input_wait", "forward": "forward", "backward": "backward", "optimizer": "optimizer"}
EXEMPT = ("HIGH_CPU", "CPU_CONTENTION")  # ranks fill the cores of a small machine
LEAST_COST = 0.08
MIN_WALL_S = 3.0


@dataclass
class Draw:
    ranks: int
    culprit: int
    phase: str
    size: float  # of the unfaulted step
    how: str
    base_ms: float
    base_work: float
    trace: bool

    @staticmethod
    def of(rng: random.Random) -> Draw:
        ranks = rng.randint(2, 4)
        return Draw(
            ranks,
            rng.randrange(ranks),
            rng.choice(list(PHASES)),
            rng.uniform(0.2, 1.0),
            rng.choice(["sleep", "work"]),
            rng.uniform(13, 50),
            rng.choice([0.0, 0.15, 0.3]) * 2 / ranks,
            rng.random() < 0.5,
        )

    def args(self, steps: int) -> list[str]:
        return ["--steps", str(steps), "--base-ms", f"{self.base_ms:.2f}", "--base-work", f"{self.base_work:.3f}"] + (
            ["--trace"] if self.trace else []
        )


def truth(outcome: Outcome) -> dict[int, dict[str, str]]:
    """The last TRUTH line of each rank."""
    found = {}
    for line in outcome.lines("TRUTH "):
        values = key_values(line)
        if "done" in values:
            found[int(values["rank"])] = values
    return found


def wall_s(outcome: Outcome) -> float:
    """The loop's wall time: the slowest rank's, by its own clock."""
    return max((float(v["wall_s"]) for v in truth(outcome).values()), default=0.0)


def run(draw: Draw, steps: int, faults: list[str], logs: Path, name: str) -> Outcome:
    args = draw.args(steps)
    for f in faults:
        args += ["--fault", f]
    return observe(JOB, args, draw.ranks, logs=logs, name=name, timeout_s=180)


def step_count(draw: Draw) -> int:
    return max(80, int(1000 * MIN_WALL_S / draw.base_ms))


def judged(outcome: Outcome) -> list[dict]:
    return [f for f in outcome.loud() if f["kind"] not in EXEMPT]


def wrong_of(draw: Draw, outcome: Outcome) -> list[str]:
    """Why a faulted run is judged wrong; empty = right."""
    if outcome.summary is None:
        return ["no summary"]
    phase = PHASES[draw.phase]
    kind = "INPUT_STRAGGLER" if draw.phase == "input" else "COMPUTE_STRAGGLER"
    said = judged(outcome)
    right = [f for f in said if f["kind"] == kind and f["ranks"] == [draw.culprit] and f["phase"] == phase]
    wrong = [] if right else ["not named"]
    return wrong + ["also " + brief(f) for f in said if f not in right]


def show(outcome: Outcome) -> None:
    for f in outcome.loud():
        print("   " + json.dumps(f))
    for f in outcome.findings:
        if f["severity"] == "info":
            print("   info: " + brief(f))
    if outcome.rc != 0 or outcome.summary is None:
        print("   rc", outcome.rc, "stderr:", "\n   ".join(outcome.stderr.splitlines()[-8:]))


def do_draws(seeds: list[int], logs: Path) -> int:
    header = [
        "seed",
        "ranks",
        "culprit",
        "phase",
        "size",
        "how",
        "trace",
        "step_ms",
        "cost",
        "said",
        "share",
        "saves",
        "verdict",
    ]
    rows, right, control_noise = [], 0, 0
    for seed in seeds:
        rng = random.Random(seed)
        for attempt in range(10):
            d = Draw.of(rng)
            steps = step_count(d)
            healthy = run(d, steps, [], logs, f"draw{seed}-{attempt}-off")
            step_ms = 1e3 * wall_s(healthy) / steps
            faulted = run(
                d, steps, [f"{d.culprit}:{d.phase}:{d.size * step_ms:.2f}:{d.how}"], logs, f"draw{seed}-{attempt}-on"
            )
            with_s, without_s = wall_s(faulted), wall_s(healthy)
            cost = (with_s - without_s) / with_s if with_s else 0.0
            wrong = wrong_of(d, faulted)
            first = next(iter(judged(faulted)), None)
            noise = judged(healthy)
            control_noise += bool(noise)
            row = [
                str(seed),
                str(d.ranks),
                str(d.culprit),
                d.phase,
                f"{d.size:.2f}",
                d.how,
                "yes" if d.trace else "no",
                f"{step_ms:.1f}",
                f"{cost:.3f}",
                f"{first['kind']} r{first['ranks']} {first['phase']}" if first else "silent",
                f"{first['cost']['share']:.3f}" if first else "",
                f"{(first['saves'] or {}).get('share', 0):.3f}" if first else "",
                "redrawn" if cost < LEAST_COST else "right" if not wrong else "WRONG: " + "; ".join(wrong),
            ]
            rows.append(row)
            print("  ".join(row), flush=True)
            if noise:
                print("   unfaulted arm not silent: " + "; ".join(brief(f) for f in noise), flush=True)
            if cost < LEAST_COST:
                continue
            if wrong:
                show(faulted)
            right += not wrong
            break
    print("\n" + table(rows, header))
    print(f"\n{right}/{len(seeds)} right in rank and phase; {control_noise} of {len(rows)} unfaulted arms not silent")
    return right


def do_controls(count: int, first_seed: int, logs: Path) -> int:
    silent = 0
    for seed in range(first_seed, first_seed + count):
        d = Draw.of(random.Random(seed))
        outcome = run(d, step_count(d), [], logs, f"control{seed}")
        said = judged(outcome)
        good = outcome.summary is not None and not said and outcome.rc == 0
        silent += good
        print(
            f"control {seed}: {d.ranks} ranks, base {d.base_ms:.1f} ms, trace {d.trace}: "
            + ("silent" if good else "NOT SILENT " + "; ".join(brief(f) for f in said)),
            flush=True,
        )
        if not good:
            show(outcome)
    print(f"{silent}/{count} healthy controls silent")
    return silent


def do_pair(seed: int, logs: Path) -> bool:
    """Rank a late by 30 ms in backward, rank b by 14 ms in forward: fixing a gains only down to b."""
    rng = random.Random(1000 + seed)
    ranks = rng.randint(3, 4)
    a, b = rng.sample(range(ranks), 2)
    d = Draw(ranks, a, "backward", 1.0, "sleep", 24.0, 0.0, bool(seed % 2))
    steps = 120
    worst, second = f"{a}:backward:30:sleep", f"{b}:forward:14:sleep"
    both = run(d, steps, [worst, second], logs, f"pair{seed}-both")
    only_second = run(d, steps, [second], logs, f"pair{seed}-second")
    healthy = run(d, steps, [], logs, f"pair{seed}-off")
    realised = (wall_s(both) - wall_s(only_second)) / wall_s(both)
    all_of_it = (wall_s(both) - wall_s(healthy)) / wall_s(both)
    named = next((f for f in judged(both) if f["kind"] == "COMPUTE_STRAGGLER"), None)
    predicted = (named or {}).get("saves") or {}
    share = predicted.get("share")
    ok = bool(named) and named["ranks"] == [a] and share is not None and abs(share - realised) <= 0.2 * realised
    ok = ok and all(set(f["ranks"]) <= {a, b} for f in judged(both))
    print(
        f"pair {seed}: {ranks} ranks, worst {a} backward 30 ms, second {b} forward 14 ms: "
        f"named {brief(named) if named else 'nobody'}; predicted saving {share}, realised {realised:.3f}, "
        f"of both {all_of_it:.3f}: {'right' if ok else 'WRONG'}",
        flush=True,
    )
    if not ok:
        show(both)
    return ok


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seeds", default="")
    p.add_argument("--controls", type=int, default=0)
    p.add_argument("--control-seed", type=int, default=101)
    p.add_argument("--pairs", type=int, default=0)
    p.add_argument("--keep", type=Path, help="keep the run folders here")
    a = p.parse_args()
    if not (a.seeds or a.controls or a.pairs):
        a.seeds, a.controls, a.pairs = "1-20", 5, 1
    seeds: list[int] = []
    for part in filter(None, a.seeds.split(",")):
        low, _, high = part.partition("-")
        seeds += range(int(low), int(high or low) + 1)
    with tempfile.TemporaryDirectory(prefix="stepscope-draws-") as scratch:
        logs = a.keep or Path(scratch)
        ok = not seeds or do_draws(seeds, logs) >= len(seeds) - len(seeds) // 20
        ok &= not a.controls or do_controls(a.controls, a.control_seed, logs) == a.controls
        for seed in range(1, a.pairs + 1):
            ok &= do_pair(seed, logs)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())

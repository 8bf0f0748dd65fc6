#!/usr/bin/env python3
"""Predicted against realised saving: a straggler hidden in backward, run with and without, `--pairs` times in turn.

Right: the primary finding is COMPUTE_STRAGGLER, that rank, phase backward, and |predicted - realised| <= 20 % of the
realised, where realised = (T_with - T_without) / T_with over equal step counts, medians over the pairs, by the script's own
clock.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from draws import wall_s

from drivers import brief, observe

JOB = Path(__file__).resolve().parent / "job.py"


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--pairs", type=int, default=1)
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--steps", type=int, default=150)
    p.add_argument("--phase", default="backward", choices=["input", "forward", "backward", "optimizer"])
    p.add_argument("--late-ms", type=float, default=25)
    p.add_argument("--trace", action="store_true")
    a = p.parse_args()
    args = ["--steps", str(a.steps), "--base-ms", "25"] + (["--trace"] if a.trace else [])
    fault = ["--fault", f"1:{a.phase}:{a.late_ms}:sleep"]
    phase = {"input": "input_wait"}.get(a.phase, a.phase)
    kind = "INPUT_STRAGGLER" if a.phase == "input" else "COMPUTE_STRAGGLER"
    predicted, realised, named = [], [], True
    with tempfile.TemporaryDirectory(prefix="stepscope-saving-") as scratch:
        for i in range(a.pairs):
            slow = observe(JOB, args + fault, a.ranks, logs=Path(scratch), name=f"with{i}", timeout_s=180)
            fast = observe(JOB, args, a.ranks, logs=Path(scratch), name=f"without{i}", timeout_s=180)
            primary = (slow.summary or {}).get("primary")
            if not primary:
                print("no primary finding\n" + slow.stderr[-2000:])
                return 1
            named &= primary["kind"] == kind and primary["ranks"] == [1] and primary["phase"] == phase
            saves = primary["saves"] or {}
            predicted.append(saves.get("share") or 0.0)
            realised.append((wall_s(slow) - wall_s(fast)) / wall_s(slow))
            low, high = saves.get("low") or 0.0, saves.get("high") or 0.0
            held = "held" if low <= realised[-1] <= high else "did not hold"
            print(
                f"pair {i}: {brief(primary)}; predicted {predicted[-1]:.3f} ({low:.3f} to {high:.3f} {held}), "
                f"realised {realised[-1]:.3f} ({wall_s(slow):.2f} s -> {wall_s(fast):.2f} s)",
                flush=True,
            )
    said, real = statistics.median(predicted), statistics.median(realised)
    ok = named and real > 0 and abs(said - real) <= 0.2 * real
    print(
        f"predicted saving {said:.3f}, realised {real:.3f}, off by {abs(said - real) / real:.1%}: {'right' if ok else 'WRONG'}"
    )
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())

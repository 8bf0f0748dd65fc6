"""Prints what the demo predicted and what came of it: demo_saving.py FOLDER. Exit code 1 when the verdict is wrong."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any


def loop_s(output: Path) -> float:
    """Seconds of the steps by the script's own clock."""
    match = re.search(r"loop_s=([0-9.]+)", output.read_text())
    if not match:
        sys.exit(f"demo: the training printed no time, see {output}")
    return float(match[1])


def loud(summary: dict[str, Any]) -> list[str]:
    return [f"{f['kind']} {f['title']}" for f in summary["findings"] if f["severity"] != "info"]


HALF_A_PERCENT = 0.005
MACHINE = ("CPU_CONTENTION",)  # what a machine that is busy otherwise adds


def is_the_fault(finding: dict[str, Any]) -> bool:
    return [finding.get(key) for key in ("kind", "ranks", "phase")] == ["COMPUTE_STRAGGLER", [1], "backward"]


def range_text(low: float, high: float) -> str:
    """Shares of wall time as a person reads them: "31 to 37 %", a narrow range as one number."""
    if high - low < 0.03:
        return f"{50 * (low + high):.0f} %"
    return f"{100 * low:.0f} to {100 * high:.0f} %"


def outcome(low: float, high: float, realised: float) -> str:
    """Whether the realised share of wall time lies in the predicted range, in plain words.

    The range is printed in whole percent, so half a percent beside it is no miss."""
    if low - HALF_A_PERCENT <= realised <= high + HALF_A_PERCENT:
        return "within the predicted range"
    if realised <= 0:
        return "the prediction did not hold: other work took the cores meanwhile; measure again"
    if realised < low:
        return f"{100 * (low - realised):.1f} points less than predicted: the prediction did not hold"
    return f"{100 * (realised - high):.1f} points more than predicted: the prediction did not hold"


def main() -> int:
    logs = Path(sys.argv[1])
    with_fault, without = (
        json.loads((logs / name / "final_summary.json").read_text()) for name in ("straggler", "fixed")
    )
    slow_s, fast_s = loop_s(logs / "straggler.out"), loop_s(logs / "fixed.out")
    primary = with_fault["primary"] or {}
    straggler: dict[str, Any] = next((f for f in with_fault["findings"] if is_the_fault(f)), {})
    saves = straggler.get("saves") or {}
    realised = (slow_s - fast_s) / slow_s

    print(f"\n  steps with the fault        {slow_s:6.2f} s   (the script's own clock, equal steps)")
    print(f"  steps without it            {fast_s:6.2f} s")
    if saves.get("low") is not None and saves.get("high") is not None:
        low, high = saves["low"], saves["high"]
        wide = f"   (wide: {saves['caveat']})" if saves.get("caveat") else ""
        print(f"  predicted saving            {range_text(low, high)}{wide}")
        print(f"  realised saving             {100 * realised:.1f} %   ({outcome(low, high, realised)})")
    quiet = f"nothing to report: {(without['primary'] or {}).get('kind', 'no finding')}"
    print(f"  without the fault           {'; '.join(loud(without)) or quiet}\n")

    if is_the_fault(primary):
        return 0
    if straggler and primary.get("kind") in MACHINE:
        print(f"demo: other programs cost more than the fault: {primary['title']}")
        return 0
    print(f"demo: expected COMPUTE_STRAGGLER of rank 1 in backward, found {primary.get('kind')} {primary.get('title')}")
    return 1


if __name__ == "__main__":
    sys.exit(main())

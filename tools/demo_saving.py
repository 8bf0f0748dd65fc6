"""Prints what the demonstration promised and what came of it: demo_saving.py FOLDER. Exit code 1 when the verdict is wrong."""

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


def main() -> int:
    logs = Path(sys.argv[1])
    with_fault, without = (
        json.loads((logs / name / "final_summary.json").read_text()) for name in ("straggler", "fixed")
    )
    slow_s, fast_s = loop_s(logs / "straggler.out"), loop_s(logs / "fixed.out")
    primary = with_fault["primary"] or {}
    predicted = (primary.get("saves") or {}).get("share")
    realised = (slow_s - fast_s) / slow_s

    print(f"\n  steps with the fault        {slow_s:6.2f} s   (the script's own clock, equal steps)")
    print(f"  steps without it            {fast_s:6.2f} s")
    if predicted is not None:
        off = (
            f"prediction off by {100 * abs(predicted - realised) / realised:.0f} %"
            if realised > 0
            else "other work ran beside it: measure again"
        )
        print(f"  saving that was predicted   {100 * predicted:6.1f} %")
        print(f"  saving that was realised    {100 * realised:6.1f} %   ({off})")
    quiet = f"nothing to report: {(without['primary'] or {}).get('kind', 'no finding')}"
    print(f"  without the fault           {'; '.join(loud(without)) or quiet}\n")

    found = [primary.get(key) for key in ("kind", "ranks", "phase")]
    right = found == ["COMPUTE_STRAGGLER", [1], "backward"]
    if not right:
        print(f"demo: expected COMPUTE_STRAGGLER of rank 1 in backward, found {found}")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())

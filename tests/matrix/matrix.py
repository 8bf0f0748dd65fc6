#!/usr/bin/env python3
"""Works on the training people already have: each launch command, loop and framework runs bare and observed.

    matrix.py [--python PATH] [--group launch|loop|framework|torch] [--only WORDS] [--quick] [--write] [--list]

Right is: equal exit codes; every loss or weight that the job printed bitwise equal with and without us; as many steps as
the optimizer (or framework) made, on every rank; each expected phase seen; validation apart from the steps. Prints one
table, leaves with 1 when anything is wrong. ``--write`` renews docs/matrix.md from the newest result of every case, which
build/matrix.json keeps: parts of the matrix can be run one after the other.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from cases import CASES, Case
from trial import Machine, Verdict

from jobs import ROOT
from section import split

KEPT = ROOT / "build/matrix.json"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--python", type=Path, default=Path(sys.executable), help="interpreter of the environment under test"
    )
    parser.add_argument("--group", choices=("launch", "loop", "framework", "torch"))
    parser.add_argument("--only", default="", help="cases whose name contains one of these, separated by commas")
    parser.add_argument("--quick", action="store_true", help="the half that make test runs")
    parser.add_argument("--write", action="store_true", help="write docs/matrix.md")
    parser.add_argument("--list", action="store_true")
    return parser.parse_args()


def selected(options: argparse.Namespace) -> list[Case]:
    words = [w.strip().lower() for w in options.only.split(",") if w.strip()]
    return [
        c
        for c in CASES
        if (not options.group or c.group == options.group)
        and (not words or any(w in c.name.lower() for w in words))
        and (not options.quick or c.quick)
    ]


def main() -> int:
    options = arguments()
    cases = selected(options)
    if options.list:
        print("\n".join(f"{c.group:10} {c.name}" for c in cases))
        return 0
    machine = Machine(options.python.absolute())
    if not machine.binary.exists():
        sys.exit(f"matrix: no stepscope beside {machine.python}")
    machines = {"": machine} | {v: Machine(older_torch(machine, v)) for v in {c.torch for c in cases} - {""}}
    verdicts = []
    for case in cases:
        verdict = machines[case.torch].judge(case)
        verdicts.append(verdict)
        keep(machines[case.torch], verdict)
        note = verdict.skipped or f"steps {verdict.steps}, {' '.join(verdict.phases)}"
        print(f"{verdict.word:8}{case.group:10} {case.name:34} {verdict.seconds:6.1f} s  {note}", flush=True)
        for line in verdict.wrong:
            print(f"        {line}", flush=True)
    wrong = sum(bool(v.wrong) for v in verdicts)
    skipped = sum(bool(v.skipped) for v in verdicts)
    print(f"matrix: {len(verdicts) - wrong - skipped} right, {wrong} wrong, {skipped} skipped")
    if options.write:
        doc = ROOT / "docs/matrix.md"
        doc.write_text(page(machine) + split(doc.read_text())[1])
    return int(bool(wrong) or not verdicts)


def older_torch(machine: Machine, version: str) -> Path:
    """The interpreter that tools/setup_matrix.sh made for this torch."""
    return machine.python.parents[2] / f"torch-{version}" / "bin/python"


def kept() -> dict[str, dict[str, str]]:
    return json.loads(KEPT.read_text()) if KEPT.exists() else {}


def keep(machine: Machine, v: Verdict) -> None:
    """The newest result of each case; a case that was skipped keeps an older one."""
    rows = kept()
    if v.skipped and v.case.name in rows:
        return
    versions = " ".join(machine.version(n) for n in v.case.needs if not n.startswith("bin:"))
    rows[v.case.name] = {
        "versions": versions,
        "torch": machine.version("torch"),
        "steps": v.steps,
        "phases": ", ".join(v.phases),
        "validation": v.validation,
        "result": v.skipped or v.word,
    }
    KEPT.parent.mkdir(exist_ok=True)
    KEPT.write_text(json.dumps(rows, indent=1))


def page(machine: Machine) -> str:
    python = subprocess.run([machine.python, "-V"], capture_output=True, text=True, check=False).stdout.strip()
    lines = [
        "# What was run",
        "",
        "Written by `make matrix` (`tests/matrix/matrix.py --write`). Every line ran bare and under `stepscope run`, without a line"
        " of stepscope in the program. `ok`: equal exit codes, every printed loss or weight bitwise equal, as many steps as the"
        " optimizer made on every rank, the expected phases seen, validation apart from the steps.",
        "",
        f"{python}, {platform.system()} {platform.machine()}, CPU and gloo.",
        "",
    ]
    rows = kept()
    titles = {"launch": "Launch commands", "loop": "Loops", "framework": "Frameworks", "torch": "Older torch"}
    for group, title in titles.items():
        lines += [
            f"## {title}",
            "",
            "| what | torch | version | ranks | steps | phases seen | validation | result |",
            "|---|---|---|---|---|---|---|---|",
        ]
        for c in (c for c in CASES if c.group == group):
            r = rows.get(c.name, {"result": "not run"})
            cells = [
                c.name,
                r.get("torch", ""),
                r.get("versions", ""),
                str(c.ranks),
                r.get("steps", ""),
                r.get("phases", ""),
                r.get("validation", ""),
                r["result"],
            ]
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())

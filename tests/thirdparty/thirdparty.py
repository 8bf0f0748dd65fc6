#!/usr/bin/env python3
"""The test suites of projects that train with torch, bare and under ``stepscope run``: nothing may come out otherwise.

    thirdparty.py [--python PATH] [--only WORDS] [--write] [--list]

Each project runs bare, observed, bare, so that a machine that gets busier or idler hurts both arms alike. Where an observed
run did something that no bare one did, its files run again, three times in each arm: what bare runs do too, now and then, is
set aside. Leaves with 1 when anything differs, or when the tests' seconds in sum are above 1.1 times. ``--write`` renews the
section in docs/matrix.md from the newest result of every project, which build/thirdparty/results.json keeps.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from arms import Arm, Place
from compare import Verdict, compare
from projects import PROJECTS, REQUIREMENTS, Project

from jobs import ROOT
from section import renewed

FOLDER = ROOT / "build/thirdparty"
KEPT = FOLDER / "results.json"
DOC = ROOT / "docs/matrix.md"
LIMIT = 1.1  # of the tests' seconds in sum
AGAIN = 3  # runs in each arm of files in which something differed


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--python", type=Path, default=Path(sys.executable), help="interpreter with the projects and stepscope"
    )
    parser.add_argument("--only", default="", help="projects whose name contains one of these, separated by commas")
    parser.add_argument("--write", action="store_true", help="write the section of docs/matrix.md")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--requirements", action="store_true", help="what the environment needs, for pip")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what runs is stopped with us
    if options.requirements:
        print("\n".join(dict.fromkeys([*REQUIREMENTS, *(p.requirement for p in PROJECTS)])))
        return 0
    words = [w.strip().lower() for w in options.only.split(",") if w.strip()]
    projects = [p for p in PROJECTS if not words or any(w in p.key.lower() for w in words)]
    if options.list:
        print("\n".join(p.key for p in projects))
        return 0
    place = Place(options.python.absolute(), FOLDER)
    if not place.binary.exists():
        sys.exit(f"thirdparty: no stepscope beside {place.python}")
    for project in projects:
        verdict = judge(place, project)
        keep(project, verdict)
        tell(project, verdict)
    rows = kept()
    bare, observed = (sum(rows[p.key][k] for p in PROJECTS if p.key in rows) for k in ("bare_s", "observed_s"))
    differences = sum(len(rows[p.key]["differences"]) for p in PROJECTS if p.key in rows)
    print(
        f"thirdparty: {differences} differences; tests {bare:.0f} s bare, {observed:.0f} s observed, {observed / bare:.3f} times"
    )
    if options.write:
        DOC.write_text(renewed(DOC.read_text(), page(rows)))
    return int(differences > 0 or observed > LIMIT * bare)


def judge(place: Place, project: Project) -> Verdict:
    bare: list[Arm] = []
    observed: list[Arm] = []
    for is_observed in (False, True, False):
        arm = place.run(project, is_observed)
        (observed if is_observed else bare).append(arm)
        print(
            f"        {project.key}: {'observed' if is_observed else 'bare'}, exit {arm.code}, {arm.elapsed_s:.0f} s, {arm.last_line}",
            flush=True,
        )
    verdict = compare(bare, observed)
    if not verdict.differences:
        return verdict
    print(
        f"{project.key}: {len(verdict.differences)} differ at first, run again:",
        *verdict.differences,
        sep="\n    ",
        flush=True,
    )
    files = tuple(
        dict.fromkeys(name.split("::")[0] for name in verdict.differing if name.split("::")[0].endswith(".py"))
    )
    if project.paths and not files:
        return verdict
    more_bare, more_observed = [], []
    for _ in range(AGAIN):
        more_bare.append(place.run(project, False, files))
        more_observed.append(place.run(project, True, files))
    return _together(verdict, bare, observed, more_bare, more_observed)


def _together(
    first: Verdict, bare: list[Arm], observed: list[Arm], more_bare: list[Arm], more_observed: list[Arm]
) -> Verdict:
    """The first runs' verdict with the differences that more runs of their files leave standing."""
    merged = [
        Arm(bare[0].code, 0, {n: a.tests[n] for n in first.differing if n in a.tests}) for a in (*bare, *more_bare)
    ]
    seen = [
        Arm(bare[0].code, 0, {n: a.tests[n] for n in first.differing if n in a.tests})
        for a in (*observed, *more_observed)
    ]
    second = compare(merged, seen)
    gone = set(first.differing) - set(second.differing)
    codes = [d for d in first.differences if d.startswith("exit code")]
    first.differences = (codes if second.differences or not gone else []) + second.differences
    first.flaky += [n for n in gone if n in second.flaky]
    first.unsteady += len([n for n in gone if n not in second.flaky])
    first.differing = second.differing
    return first


def tell(project: Project, verdict: Verdict) -> None:
    word = "DIFFERS" if verdict.differences else "ok"
    print(
        f"{word:8}{project.key:34} {verdict.passed} of {verdict.tests} pass, {len(verdict.flaky)} flaky, {verdict.unsteady} unsteady,"
        f" {verdict.bare_s:.1f} s bare, {verdict.ratio:.3f} times",
        flush=True,
    )
    for line in verdict.differences:
        print(f"        {line}", flush=True)


def kept() -> dict[str, dict[str, Any]]:
    return json.loads(KEPT.read_text()) if KEPT.exists() else {}


def keep(project: Project, verdict: Verdict) -> None:
    rows = kept()
    rows[project.key] = {
        "version": project.version,
        "torch": _torch(),
        **verdict.__dict__,
        "at": datetime.date.today().isoformat(),
    }
    KEPT.parent.mkdir(parents=True, exist_ok=True)
    KEPT.write_text(json.dumps(rows, indent=1))


def _torch() -> str:
    from importlib.metadata import version

    return version("torch")


def page(rows: dict[str, dict[str, Any]]) -> list[str]:
    """The section of docs/matrix.md."""
    commit = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    shown = [(p, rows[p.key]) for p in PROJECTS if p.key in rows]
    lines = [
        "Written by `make thirdparty` (`tests/thirdparty/`). The projects' own tests, from their source packages, bare, under"
        " `stepscope run` and bare again in one environment. `ok`: every test has the same outcome, raises the same, gives the same"
        " warnings at the same lines and prints the same, and the exit codes are equal. *Flaky*: the outcome differs from one bare run"
        " to the other, it is not compared; *unsteady*: warnings or output do, mostly in seconds: only what is left without numbers is"
        " compared. Seconds are the tests' own, in sum, the mean of the"
        " runs; scripts: the whole run, with its start and our summary. CPU times: of the test process and the"
        " children it waited for, which a busy machine disturbs less. A row that is missing was not run.",
        "",
        f"{datetime.date.today().isoformat()}, commit {commit}, Python {platform.python_version()}, {platform.system()} {platform.machine()},"
        f" {os.cpu_count()} cores. Other work ran on the machine's cores meanwhile: ratios of single rows carry some per cent of noise.",
        "",
        "| project | version | torch | tests | pass | flaky | unsteady | bare | observed | times | CPU times | result |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for p, r in shown:
        result = f"{len(r['differences'])} differ" if r["differences"] else "ok"
        times = r["observed_s"] / r["bare_s"] if r["bare_s"] else 1.0
        cpu = f"{r['observed_cpu_s'] / r['bare_cpu_s']:.3f}" if r["bare_cpu_s"] else "–"
        lines.append(
            f"| {p.key} | {r['version']} | {r['torch']} | {r['tests']} | {r['passed']} | {len(r['flaky'])} | {r['unsteady']}"
            f" | {r['bare_s']:.1f} s | {r['observed_s']:.1f} s | {times:.3f} | {cpu} | {result} |"
        )
    bare, observed = (sum(r[k] for _, r in shown) for k in ("bare_s", "observed_s"))
    if bare:
        cpu = [sum(r[k] for _, r in shown) for k in ("bare_cpu_s", "observed_cpu_s")]
        lines += [
            "",
            f"In sum {bare:.0f} s bare, {observed:.0f} s observed: {observed / bare:.3f} times (asked: at most {LIMIT});"
            f" CPU time of the suites {cpu[0]:.0f} s and {cpu[1]:.0f} s: {cpu[1] / max(cpu[0], 1e-9):.3f} times.",
        ]
    for p, r in shown:
        for d in r["differences"]:
            lines += ["", f"* {p.key}: {d[:300]}"]
    return lines


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""What watching costs: added time per step, zero-code, against the bare launch, with an A/A arm through the same launcher.

    overhead.py --pairs 6 --write          all four jobs; renews the table in docs/overhead.md

Three arms run in turn, `--pairs` times: bare launch, `stepscope run --disable` (same launcher, nothing watched: its difference
to bare is noise) and `stepscope run`. A run's figure is the median step time by the script's own clock; a row shows the
median over the pairs of the differences and their smallest and largest. Start-up: launch to the script's first line; end:
the script's last line to the end of the launcher.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/support"))

from drivers import key_values, quiet
from jobs import ROOT, Outcome, observed, python, run, summary, torchrun

SCRIPT = ROOT / "bench/overhead_job.py"
DOC, BEGIN, END = ROOT / "docs/overhead.md", "<!-- overhead:begin -->", "<!-- overhead:end -->"
ARMS = ("bare", "disable", "watched")
JOBS = {  # name → (preset, steps, ranks)
    "1.5 ms step, 1 process": ("1.5ms", 2000, 1),
    "40 ms step, 1 process": ("40ms", 120, 1),
    "1.5 ms step, DDP 2 ranks": ("1.5ms", 1200, 2),
    "40 ms step, DDP 2 ranks": ("40ms", 100, 2),
}


@dataclass
class Arm:
    p50_us: list[float] = field(default_factory=list)
    first_ms: list[float] = field(default_factory=list)
    end_ms: list[float] = field(default_factory=list)
    records: list[int] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)


def command(arm: str, preset: str, steps: int, ranks: int, logs: Path, name: str) -> list[str]:
    script = [SCRIPT, "--preset", preset, "--steps", str(steps)]
    if arm == "bare":
        return torchrun(ranks if ranks > 1 else 0, *script)
    several = ["--nproc-per-node", str(ranks)] if ranks > 1 else []
    return observed(logs, name, *several, *(["--disable"] if arm == "disable" else []), *script)


def one_run(arm: Arm, argv: list[str], logs: Path, name: str) -> Outcome:
    outcome = run(argv, quiet(), timeout_s=300)
    values = [key_values(line) for line in outcome.lines("BENCH ")]
    medians = [float(v["p50_us"]) for v in values if "p50_us" in v]
    if outcome.rc != 0 or not medians:
        raise RuntimeError(f"{' '.join(argv)} ended with {outcome.rc}: {outcome.stderr[-1500:]}")
    arm.p50_us.append(statistics.fmean(medians))
    arm.first_ms.append(1e3 * (min(float(v["first"]) for v in values if "first" in v) - outcome.started))
    arm.end_ms.append(1e3 * (outcome.ended - max(float(v["last"]) for v in values if "last" in v)))
    left = summary(logs / name)
    if left:
        arm.records.append(left["observer"]["records"])
        arm.lost.append(left["observer"]["lost"])
    return outcome


def spread(values: list[float], unit: str = "") -> str:
    return f"{statistics.median(values):+.1f}{unit} ({min(values):+.1f} … {max(values):+.1f})"


def differences(a: list[float], b: list[float]) -> list[float]:
    return [y - x for x, y in zip(a, b)]


def measure(jobs: list[str], pairs: int, scale: float) -> dict[str, dict[str, Arm]]:
    result = {}
    with tempfile.TemporaryDirectory(prefix="stepscope-overhead-") as scratch:
        for job in jobs:
            preset, steps, ranks = JOBS[job]
            arms = result[job] = {a: Arm() for a in ARMS}
            one_run(
                Arm(), command("bare", preset, max(20, steps // 10), ranks, Path(scratch), "x"), Path(scratch), "x"
            )  # warm caches
            for i in range(pairs):
                order = ARMS if i % 2 == 0 else ARMS[::-1]
                for arm in order:
                    name = f"{jobs.index(job)}-{i}-{arm}"
                    argv = command(arm, preset, int(steps * scale), ranks, Path(scratch), name)
                    one_run(arms[arm], argv, Path(scratch), name)
                print(f"{job}, pair {i}: " + ", ".join(f"{a} {arms[a].p50_us[-1]:.1f} us" for a in ARMS), flush=True)
    return result


def markdown(result: dict[str, dict[str, Arm]], pairs: int, extra: str) -> str:
    torch = subprocess.run(
        [python(), "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True
    ).stdout.strip()
    out = [
        f"Measured {datetime.date.today().isoformat()} on {os.cpu_count()} cores ({cpu_name()}), Linux {platform.release()}, "
        f"Python {python_version()}, torch {torch}, load average {os.getloadavg()[0]:.1f} at the end; {pairs} interleaved pairs.",
        "Median over the pairs of the difference to the bare launch of the same pair (smallest … largest), in µs per step.",
        "",
        "| job | bare step, µs | A/A: `--disable` − bare | watched − bare | share of the step | records / lost |",
        "|---|---|---|---|---|---|",
    ]
    for job, arms in result.items():
        base = statistics.median(arms["bare"].p50_us)
        noise = differences(arms["bare"].p50_us, arms["disable"].p50_us)
        added = differences(arms["bare"].p50_us, arms["watched"].p50_us)
        records = f"{sum(arms['watched'].records)} / {sum(arms['watched'].lost)}"
        out.append(
            f"| {job} | {base:.0f} | {spread(noise)} | {spread(added)} | {statistics.median(added) / base:+.2%} | {records} |"
        )
    out += [
        "",
        "| job | start to first line, ms over bare | last line to the end, ms: bare | watched |",
        "|---|---|---|---|",
    ]
    for job, arms in result.items():
        first = differences(arms["bare"].first_ms, arms["watched"].first_ms)
        out.append(
            f"| {job} | {spread(first)} | {statistics.median(arms['bare'].end_ms):.0f} | {statistics.median(arms['watched'].end_ms):.0f} |"
        )
    return "\n".join(out) + ("\n\n" + extra if extra else "")


def cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def python_version() -> str:
    return subprocess.run(
        [python(), "-c", "import platform; print(platform.python_version())"], capture_output=True, text=True
    ).stdout.strip()


def mark_cost() -> str:
    """The numbers of bench/mark_cost.py, word for word."""
    script = ROOT / "bench/mark_cost.py"
    if not script.exists():
        return ""
    done = subprocess.run([python(), str(script)], capture_output=True, text=True, timeout=300, cwd=ROOT)
    if done.returncode != 0:
        print("bench/mark_cost.py failed: " + done.stderr[-500:], file=sys.stderr)
        return ""
    return "One mark (`bench/mark_cost.py`):\n\n```\n" + done.stdout.strip() + "\n```"


def write(text: str) -> None:
    """Puts the text between the markers; the rest of the page stays as it is."""
    if DOC.exists() and BEGIN in (old := DOC.read_text()) and END in old:
        head, rest = old.split(BEGIN, 1)
        page = head + BEGIN + "\n" + text + "\n" + END + rest.split(END, 1)[1]
    else:
        page = (
            (
                DOC.read_text() + "\n"
                if DOC.exists()
                else "# What watching costs\n\n`make bench` renews the figures below.\n\n"
            )
            + BEGIN
            + "\n"
            + text
            + "\n"
            + END
            + "\n"
        )
    DOC.write_text(page)


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--pairs", type=int, default=6)
    p.add_argument(
        "--jobs", help="numbers of the jobs, comma-separated: " + ", ".join(f"{i} = {j}" for i, j in enumerate(JOBS))
    )
    p.add_argument("--scale", type=float, default=1.0, help="steps of each run, times this")
    p.add_argument("--write", action="store_true", help="renew docs/overhead.md")
    a = p.parse_args()
    names = list(JOBS)
    jobs = [names[int(i)] for i in a.jobs.split(",")] if a.jobs else names
    text = markdown(measure(jobs, a.pairs, a.scale), a.pairs, mark_cost())
    print("\n" + text)
    if a.write:
        write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

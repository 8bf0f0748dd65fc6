#!/usr/bin/env python3
"""A long training that does everything long trainings do: memory must stay flat, every count must be right.

    soak.py --steps 2000000 --write       the whole soak; renews docs/soak.md
    soak.py --steps 10000                 the share that make test runs

The job goes on by itself: when this program is killed, ``--resume`` follows the same job to its end (records that were
overwritten meanwhile are then said to be missed, and counts that rest on them are not judged). Leaves with 1 when anything
is wrong. What it saw stays in build/soak/.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from soak_judge import GRAIN_KIB, WARM_UP_STEPS, judge
from tap import Tap
from watch import agent_of, memory_kib

import jobs
from jobs import ROOT, Mark, environment, observed, torchrun

JOB = Path(__file__).with_name("soak_job.py")
DOC = ROOT / "docs/soak.md"
TAP_S = 0.2  # a ring of 65,536 records must not turn over between two looks
START_S, END_S = 120.0, 120.0  # patience with a start, and with the summary after the last step


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=2_000_000)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--sample-s", type=float, default=5.0, help="between two looks at the memory")
    parser.add_argument("--folder", type=Path, default=ROOT / "build/soak")
    parser.add_argument("--resume", action="store_true", help="follow the job that an earlier call started")
    parser.add_argument("--bare", action="store_true", help="without stepscope: what the job's own memory does")
    parser.add_argument("--write", action="store_true", help="write docs/soak.md")
    return parser.parse_args()


def start(options: argparse.Namespace) -> None:
    """The job in a session of its own, its exit code in a file: it outlives this program."""
    folder = options.folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    command = torchrun(options.ranks, JOB, "--steps", str(options.steps))
    if not options.bare:
        command = observed(folder / "logs", "soak", "--", *command)
    shell = 'out=$1; shift; "$@" >"$out/out.txt" 2>"$out/err.txt" </dev/null; echo $? >"$out/code.new"; mv "$out/code.new" "$out/code"'
    words = ["sh", "-c", shell, "soak", folder, *command]
    env = environment(OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="", SOAK_PROGRESS=str(folder))
    process = jobs.start(words, env, Mark(), stdout=None, stderr=None)
    (folder / "job.json").write_text(
        json.dumps({"pid": process.pid, "steps": options.steps, "ranks": options.ranks, "bare": options.bare})
    )


def told(folder: Path) -> dict[int, dict[str, Any]]:
    """Ranks by what they write of themselves, where there is no ring."""
    ranks = {}
    for path in folder.glob("rank-*"):
        pid, steps = map(int, path.read_text().split() or (0, 0))
        ranks[int(path.name[5:])] = {"rank_kib": memory_kib(pid), "steps": steps}
    return ranks


def follow(folder: Path, job: dict[str, Any], sample_s: float) -> None:
    """Samples memory and counts records until the job has left; both are kept as they come."""
    tap = Tap(folder / "tap.json")
    begun = float((folder / "job.json").stat().st_mtime)
    next_sample, agent = time.time(), 0
    with (folder / "samples.jsonl").open("a") as out:
        while not (folder / "code").exists():
            if not Path(f"/proc/{job['pid']}").exists() and not (folder / "code").exists():
                time.sleep(1)
                if not (folder / "code").exists():
                    raise SystemExit("soak: the job has gone without an exit code")
            ranks = {} if job["bare"] else tap.look(job["pid"])
            if time.time() >= next_sample:
                next_sample = time.time() + sample_s
                agent = agent_of(job["pid"])
                sample: dict[str, Any] = {
                    "at_s": round(time.time() - begun, 2),
                    "ranks": told(folder) if job["bare"] else {},
                }
                sample["agent_kib"] = memory_kib(agent) if agent else None
                for rank, ring in ranks.items():
                    sample["ranks"][rank] = {
                        "rank_kib": memory_kib(ring.pid),
                        "steps": ring.counts["steps"],
                        **ring.sizes(),
                    }
                out.write(json.dumps(sample) + "\n")
                out.flush()
                tap.keep()
            time.sleep(TAP_S)
        tap.keep()


def main() -> int:
    options = arguments()
    folder = options.folder.resolve()
    if not options.resume:
        start(options)
    job = json.loads((folder / "job.json").read_text())
    if not (folder / "code").exists():
        follow(folder, job, options.sample_s)
    result = judge(folder, job)
    print(result.text())
    for line in result.wrong:
        print(f"WRONG   {line}")
    if options.write:
        DOC.write_text(page(folder, result.table(), job, result.wrong))
    return int(bool(result.wrong))


def page(folder: Path, table: list[str], job: dict[str, Any], wrong: list[str]) -> str:
    commit = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    said = [json.loads(line[5:]) for line in (folder / "out.txt").read_text().splitlines() if line.startswith("SOAK ")]
    seconds = max((s["seconds"] for s in said), default=0.0)
    return "\n".join(
        [
            "# Soak",
            "",
            "One long training under `stepscope run` that does everything long trainings do: a new loader each 100 steps (one in 200 with a"
            " worker), process groups made and destroyed, exceptions raised in every part of a step and caught, threads that end by an"
            " exception, evaluation, checkpoints. It must leave memory flat and every count right.",
            "",
            "    make soak                      # 2,000,000 steps: 35 minutes of one core where nothing else runs",
            "    make soak SOAK_STEPS=100000",
            "    python tests/soak/soak.py --resume     # follows a job whose follower was stopped; --bare: torch alone",
            "",
            f"Memory is sampled from outside. Judged are samples after a tenth of the run and after {WARM_UP_STEPS:,} steps, when what the"
            " script does seldom was done often enough and what the agent keeps of steps is full: the median of the slopes between all pairs"
            " of samples, times the steps they cover. Allowed are"
            f" {GRAIN_KIB:,} KiB once, which an allocator takes at a time, and a byte a step, the smallest leak that two million steps tell from"
            " that; the ring and the names in it may not grow at all. Records are counted by a reader of its own, which shares no code with"
            " the agent, and compared with what the script counted, as are the figures of the summary. A closure that raises leaves"
            " `optimizer.step` with a begin and no end, since torch runs no hook then. `make test` runs a share of 10,000 steps.",
            "",
            "## Measured",
            "",
            f"{datetime.date.today().isoformat()}, commit {commit}, {platform.system()} {platform.machine()}, {os.cpu_count()} cores that did other"
            f" work too, Python {platform.python_version()}: {job['steps']:,} steps on {job['ranks']} rank{'s' if job['ranks'] > 1 else ''} in"
            f" {seconds:,.0f} s. Written by `make soak`.",
            "",
            *table,
            "",
            *(
                [f"Result: {len(wrong)} wrong.", "", *[f"* {w}" for w in wrong]]
                if wrong
                else ["Result: memory flat, every count right."]
            ),
            "",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())

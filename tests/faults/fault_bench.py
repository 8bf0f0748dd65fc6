#!/usr/bin/env python3
"""Every fault job on and off through `stepscope run`, and how right the verdicts were.

    fault_bench.py --out build/fault-bench                    goes on where the last call stopped, at most 90 minutes
    fault_bench.py --out build/fault-bench --families unseen --repeats 1 --lanes "0,1;2,3"
    fault_bench.py --out build/fault-bench --score            no run: the figures of what is there

A lane is a set of cores of its own (taskset); lanes run side by side. Results are one JSON line per run in OUT/runs.jsonl; figures
of jobs whose writers did not know the rules (unseen) are told apart.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import statistics
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]

from bench_entries import FAMILIES, Entry, entries  # noqa: E402
from bench_score import Judged, Score, judge_run, total  # noqa: E402

from drivers import brief, finish, read, table  # noqa: E402
from jobs import Job, environment, observed  # noqa: E402

Key = tuple[str, str, bool, int]  # family, id, fault on, repeat
RUN_TIMEOUT_S = 240


def run(entry: Entry, fault_on: bool, repeat: int, logs: Path, lane: str) -> dict[str, Any]:
    """One job; returns its line of runs.jsonl."""
    name = f"{entry.family}-{entry.id.replace('@', '_')}-{'on' if fault_on else 'off'}-{repeat}"
    args = [*entry.args, "--fault", "on" if fault_on else "off", "--seed", str(repeat)] if entry.family == "lab" else []
    launch = ["--nproc-per-node", str(entry.processes)] if entry.processes else []
    command = observed(logs, name, *launch, entry.script, *args)
    if lane:
        command = ["taskset", "-c", lane, *command]
    env = environment(REPORT_FAULT="1" if fault_on else "0", CUDA_VISIBLE_DEVICES="", TORCH_CPP_LOG_LEVEL="ERROR")
    if entry.family == "lab" or entry.processes > 1:
        env["OMP_NUM_THREADS"] = "1"
    job = Job(command, env)
    outcome = read(finish(job, RUN_TIMEOUT_S, entry.signal), logs / name)
    summary = outcome.summary or {}
    return {
        "family": entry.family,
        "id": entry.id,
        "on": fault_on,
        "repeat": repeat,
        "rc": outcome.rc,
        "timed_out": outcome.timed_out,
        "summary": outcome.summary is not None,
        "findings": summary.get("findings", []),
        "mean_ms": ((summary.get("steps") or {}).get("wall_ms") or {}).get("mean"),
    }


def known(path: Path) -> dict[Key, dict[str, Any]]:
    """The runs that are there; a line cut off in its middle is run again."""
    out: dict[Key, dict[str, Any]] = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            r = json.loads(line)
        except ValueError:
            continue
        out[(r["family"], r["id"], r["on"], r["repeat"])] = r
    return out


def saving_words(entry: Entry, on: dict[str, Any], off: dict[str, Any] | None, found: dict) -> str:
    """Predicted against realised saving, "" where one of them is not known."""
    saves = found.get("saves")
    if not saves or not off or not on["mean_ms"] or not off["mean_ms"]:
        return ""
    realised = 1 - off["mean_ms"] / on["mean_ms"]
    low, high = saves.get("low", saves["share"]), saves.get("high", saves["share"])
    held = low <= realised <= high or abs(realised - saves["share"]) <= 0.2 * max(realised, 0.01)
    return f"saves {low:.2f}..{high:.2f}, realised {realised:.2f}{'' if held else ' (not held)'}"


def report(all_entries: list[Entry], runs: dict[Key, dict[str, Any]]) -> str:
    """The figures, by family, and each run that is not right."""
    judged: dict[str, list[Judged]] = {f: [] for f in FAMILIES}
    confusion: list[list[str]] = []
    for e in all_entries:
        for (family, id_, on, repeat), r in sorted(runs.items()):
            if (family, id_) != (e.family, e.id):
                continue
            j = judge_run(e, on, r["findings"])
            judged[e.family].append(j)
            saving = saving_words(e, r, runs.get((family, id_, False, repeat)), j.found) if j.found else ""
            if (j.wanted and not j.found) or j.false or j.false_healthy or j.cause == "wrong" or "not held" in saving:
                said = "; ".join(brief(f) for f in j.false) or ("nothing" if not j.found else brief(j.found))
                state = "on" if on else "off"
                confusion.append([family, id_, state, "/".join(e.kinds) or "healthy", said[:150], saving])
    rows = [[f, *figures(total(judged[f]))] for f in FAMILIES if judged[f]]
    head = [
        "family",
        "right",
        "missed",
        "false",
        "silent",
        "precision",
        "recall",
        "F1",
        "cause r/u/w",
        "false healthy",
        "steps",
    ]
    text = table(rows, head)
    if confusion:
        text += "\n\nnot right\n" + table(confusion, ["family", "id", "fault", "truth", "said", "saving"])
    return text


def figures(s: Score) -> list[str]:
    steps = f"{statistics.median(s.steps_until):.0f}" if s.steps_until else "-"
    causes = "/".join(str(s.causes[k]) for k in ("right", "unknown", "wrong"))
    shares = [f"{x:.3f}" for x in (s.precision, s.recall, s.f1)]
    counts = [str(x) for x in (s.right, s.missed, s.false, s.silent_right)]
    return [*counts, *shares, causes, str(s.false_healthy), steps]


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", type=Path, required=True, help="folder of the results and the run folders")
    p.add_argument("--families", default=",".join(FAMILIES))
    p.add_argument("--ids", help="only these, comma-separated")
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("--minutes", type=float, default=90, help="no run begins later")
    p.add_argument("--lanes", default="", help='sets of cores, as "0,1;2,3" (default: one lane, all cores)')
    p.add_argument("--score", action="store_true", help="run nothing, tell the figures of what is there")
    a = p.parse_args()
    wanted = tuple(a.families.split(","))
    if unknown := set(wanted) - set(FAMILIES):
        p.error(f"no such family: {', '.join(sorted(unknown))} (there are {', '.join(FAMILIES)})")
    chosen = [e for e in entries(wanted) if not a.ids or e.id in a.ids.split(",")]
    a.out.mkdir(parents=True, exist_ok=True)
    path = a.out / "runs.jsonl"
    runs = known(path)
    todo = [
        (e, on, repeat)
        for repeat in range(a.repeats)
        for e in chosen
        for on in (True, False)
        if (on or e.has_control) and (e.family, e.id, on, repeat) not in runs
    ]
    lanes: queue.Queue[str] = queue.Queue()
    for lane in a.lanes.split(";"):
        lanes.put(lane)
    end, lock = time.monotonic() + 60 * a.minutes, threading.Lock()

    def one(item: tuple[Entry, bool, int]) -> None:
        entry, on, repeat = item
        lane = lanes.get()
        try:
            if time.monotonic() > end:
                return
            line = run(entry, on, repeat, a.out / "logs", lane)
        finally:
            lanes.put(lane)
        with lock, path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        state = "on" if on else "off"
        said = "; ".join(brief(f) for f in line["findings"] if f["severity"] != "info") or "silent"
        print(f"{entry.family} {entry.id} {state} {repeat}: {said}", flush=True)

    if not a.score:
        with ThreadPoolExecutor(lanes.qsize()) as pool:
            list(pool.map(one, todo))
        runs = known(path)
        left = sum((e.family, e.id, on, k) not in runs for e, on, k in todo)
        if left:
            print(f"{left} of {len(todo)} runs are left for the next call")
    print(report(chosen, runs))
    return 0


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())

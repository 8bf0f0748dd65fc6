"""Jobs of two GPUs that stand still, on NCCL: which rank, why and where, before the group's own timeout.

    python tests/gpu/real_hang.py [--faults skips,sleeps,…] [--keep FOLDER]      # about 25 s per job

Prints one JSON line per job. A job is ended by SIGINT once the hang is said, or when the group's timeout is over.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import shutil
import signal
import tempfile
import time
from pathlib import Path

import real

import jobs

JOB = str(real.HERE / "jobs" / "hang_gpu.py")
TIMEOUT_S = 100.0
# fault → (causes any of which is right, text that must stand in the place of the culprit; "" = none asked)
TRUTH = {
    "skips": ({"uneven_collectives", "mismatched_collective", "uneven_steps"}, ""),
    "sleeps": ({"rank_silent"}, " sleeps"),
    "holds_the_gil": ({"gil_held"}, " holds_the_gil"),
    "stops": ({"stopped"}, ""),
    "spins": ({"device_work"}, ""),
    "spins_and_reads": ({"device_work", "rank_silent"}, " spins_and_reads"),  # nothing was issued behind it
}
RUNS = [
    ("none", 1, 400, True),
    *(("skips", who, step, True) for who, step in ((1, 20), (0, 35), (1, 50))),
    ("skips", 1, 20, False),
    ("sleeps", 1, 20, True),
    ("sleeps", 0, 33, False),
    ("holds_the_gil", 1, 20, True),
    ("stops", 1, 20, True),
    ("spins", 1, 20, True),
    ("spins", 0, 33, False),
    ("spins_and_reads", 1, 20, True),
]


def run(fault: str, who: int, step: int, sync: bool, keep: Path | None) -> dict:
    folder = Path(tempfile.mkdtemp(prefix="stepscope-hang-"))
    name = f"{fault}-{who}-{step}-{'sync' if sync else 'ahead'}"
    env = {"HANG_SECONDS": str(TIMEOUT_S), "HANG_SYNC": str(int(sync)), "PYTHONUNBUFFERED": "1"}
    job = real.observed([JOB, fault, str(who), str(step)], 2, folder, name, env)
    if job.wait_for("HANG", TIMEOUT_S + 60):
        time.sleep(3)  # for the stacks
    for number in (signal.SIGINT, signal.SIGCONT):
        with contextlib.suppress(ProcessLookupError):
            job.signal_group(number)
    done = job.finish(60)
    job.bury()
    faults = [float(at) for at in re.findall(r"fault (\d+\.\d+)", done.stdout)]
    now = time.time() - time.monotonic()  # the job tells the time of day
    hang_at = next((now + at for at, line in job.complaints() if "HANG" in line), None)
    row: dict = {"fault": fault, "rank": who, "step": step, "sync": sync, "rc": done.rc}
    row["said_after_s"] = round(hang_at - max(faults), 1) if hang_at and faults else None
    summary = jobs.summary(folder / name)
    if summary is None:
        row["wrong"] = ["no summary"]
        return row
    hang = next((f for f in summary["findings"] if f["kind"] == "HANG"), None)
    row["status"] = summary["run"]["status"]
    wrong = []
    if fault == "none":
        wrong += [f"said {hang['title']}"] if hang else []
    elif hang is None:
        wrong.append("no HANG")
        row["findings"] = [(f["kind"], f["severity"], f["title"]) for f in summary["findings"]]
        row["stderr"] = [line for _, line in job.complaints()][-8:]
    else:
        causes, text = TRUTH[fault]
        places = {e.get("rank"): e["text"] for e in hang["evidence"] if e["name"] == "where"}
        row |= {"title": hang["title"], "cause": hang["cause"], "ranks": hang["ranks"], "where": places}
        row["evidence"] = [(e["name"], e.get("rank"), e.get("text") or e.get("value")) for e in hang["evidence"]]
        if hang["cause"] not in causes:
            wrong.append(f"cause {hang['cause']}")
        if who not in hang["ranks"]:
            wrong.append(f"ranks {hang['ranks']}")
        if text and text not in places.get(who, ""):
            wrong.append(f"place {places.get(who)}")
    row["wrong"] = wrong
    if keep:
        shutil.copytree(folder / name, keep / name, dirs_exist_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", default="")
    parser.add_argument("--keep", type=Path)
    args = parser.parse_args()
    wanted = set(filter(None, args.faults.split(",")))
    failed = 0
    for fault, who, step, sync in RUNS:
        if wanted and fault not in wanted:
            continue
        row = run(fault, who, step, sync, args.keep)
        failed += bool(row["wrong"])
        print(json.dumps(row), flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main())

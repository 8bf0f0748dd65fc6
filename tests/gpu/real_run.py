"""The whole product on real GPUs: each job under `stepscope run`, its verdict held against what was put in.

    python tests/gpu/real_run.py [--gpus 2] [--jobs ddp_backward,…] [--keep FOLDER]      # about 15 s per job

Prints one JSON line per job. --keep leaves summaries and black boxes there (`stepscope report` reads them anywhere).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import real

import jobs

TRAIN = str(real.HERE / "jobs" / "train_gpu.py")
ONSET = 20


@dataclass
class Job:
    """A job and its truth: `kinds` any of which must be said (none: silence), on `rank`, in `phase`."""

    arguments: list[str]
    ranks: int
    kinds: tuple[str, ...] = ()
    phase: str | None = None
    cause: str | None = None
    onset: int | None = ONSET
    env: dict[str, str] | None = None


def jobs_of(gpus: int) -> dict[str, Job]:
    last = gpus - 1

    def late(fault: str, *more: str) -> list[str]:
        return ["--fault", fault, "--rank", str(last), "--onset", str(ONSET), "--steps", "120", *more]

    def straggler(fault: str, kind: str, phase: str | None, *more: str, cause: str | None = None) -> Job:
        return Job(late(fault, *more), gpus, (kind,), phase, cause)

    small = ["--layers", "2", "--width", "256", "--batch", "8", "--length", "64"]
    # Enough work that the GPUs, and not FSDP's own host work, set the pace.
    fsdp = ["--mode", "fsdp", "--width", "1024", "--batch", "32", "--length", "512"]
    slow_link = {"NCCL_P2P_DISABLE": "1"}  # through host memory
    many = {
        "ddp_none": Job(["--steps", "120"], gpus),
        "ddp_backward": straggler("backward", "COMPUTE_STRAGGLER", "backward"),
        "ddp_forward": straggler("forward", "COMPUTE_STRAGGLER", "forward"),
        "ddp_optimizer": straggler("optimizer", "COMPUTE_STRAGGLER", "optimizer"),
        "ddp_input": straggler("input", "INPUT_STRAGGLER", "input_wait", "--ms", "30"),
        "ddp_host": straggler("host", "STRAGGLER", None, "--ms", "30"),
        "ddp_launch": straggler("launch", "COMPUTE_STRAGGLER", None, cause="launch_bound"),
        "ddp_slow_link": Job(
            ["--fault", "bandwidth", "--steps", "120", *small, "--width", "1024"],
            gpus,
            ("COMM_BOUND",),
            onset=None,
            env=slow_link,
        ),
        "fsdp_none": Job(["--steps", "80", *fsdp], gpus),
        "fsdp_backward": straggler("backward", "COMPUTE_STRAGGLER", "backward", "--ms", "40", *fsdp),
        "fsdp_forward": straggler("forward", "COMPUTE_STRAGGLER", "forward", "--ms", "40", *fsdp),
        # Longer than the step: what is shorter hides behind the work that the host has queued.
        "fsdp_input": straggler("input", "INPUT_STRAGGLER", "input_wait", "--ms", "300", *fsdp),
        "fsdp_input_hidden": Job(late("input", "--ms", "60", *fsdp), gpus),
    }
    one = {
        "none": Job(["--steps", "150"], 0),
        "item": Job(["--steps", "150", "--fault", "item", "--onset", "0"], 0, ("SYNC_STALL",), onset=0),
        "host_bound": Job(
            ["--steps", "400", "--layers", "8", "--width", "64", "--batch", "2", "--length", "16"],
            0,
            ("HOST_BOUND",),
            onset=0,
        ),
        "h2d": Job(["--steps", "100", "--fault", "h2d", *small], 0, ("H2D_BOUND",), onset=0),
        "creep": Job(
            ["--steps", "200", "--fault", "creep", "--onset", "0", "--mb", "8", "--layers", "2"],
            0,
            ("MEMORY_CREEP",),
            onset=0,
        ),
        "lengths": Job(["--steps", "150", "--fault", "lengths", "--onset", "0", "--layers", "2"], 0),
        "fragment": Job(
            ["--steps", "150", "--fault", "fragment", "--onset", "0", "--layers", "2"],
            0,
            ("MEMORY_FRAGMENTATION",),
            onset=0,
        ),
        "pressure": Job(
            ["--steps", "150", "--fault", "pressure", "--onset", "0", "--layers", "2"], 0, ("MEMORY_PRESSURE",), onset=0
        ),
        "oom": Job(
            ["--steps", "150", "--fault", "oom", "--onset", "60", "--layers", "2"],
            0,
            ("MEMORY_PRESSURE",),
            cause="out_of_memory",
            onset=None,
        ),
        "graph": Job(["--steps", "150", "--layers", "2", "--compile", "reduce-overhead"], 0),
    }
    return {**(many if gpus > 1 else {}), **one}


def loud(summary: dict) -> list[dict]:
    return [f for f in summary.get("findings", []) if f["severity"] in ("warn", "crit")]


def short(f: dict) -> str:
    parts = [
        f["kind"],
        f["severity"],
        "r" + ",".join(map(str, f["ranks"])) if f["ranks"] else f["scope"],
        f["phase"],
        f["cause"],
        f"first={f['steps']['first']}",
        f"detected={f['steps']['detected']}",
        f"share={f['cost']['share']}",
    ]
    return " ".join(str(p) for p in parts if p)


def right(job: Job, gpus: int, summary: dict) -> bool:
    said = loud(summary)
    if not job.kinds:
        return not said
    for f in said:
        if (
            f["kind"] not in job.kinds
            or (job.phase and f["phase"] != job.phase)
            or (job.cause and f["cause"] != job.cause)
        ):
            continue
        if job.ranks > 1 and job.onset is not None and f["ranks"] != [gpus - 1]:
            continue
        if (
            job.onset is not None
            and f["steps"]["detected"] is not None
            and f["steps"]["detected"] - job.onset > 20
            and job.ranks > 1
        ):
            continue
        return True
    return False


def run(name: str, job: Job, gpus: int, logs: Path) -> bool:
    running = real.observed([TRAIN, *job.arguments], job.ranks, logs, name, job.env or {}, "--keep-rings")
    done = running.finish(100)
    running.bury()
    summary, said = jobs.summary(logs / name), done.stdout + done.stderr
    if summary is None:
        return real.report(name, False, code=done.rc, error="no summary", out=said[-2000:])
    ledger = {
        k: round(v["share"], 3) for k, v in ((summary.get("ledger") or {}).get("job") or {}).items() if v.get("share")
    }
    return real.report(
        name,
        right(job, gpus, summary),
        code=done.rc,
        findings=[short(f) for f in summary["findings"]],
        ledger=ledger,
        lines=said[-1500:] if done.rc and not job.kinds else "",
    )


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--jobs", default="")
    parser.add_argument("--keep", default="")
    arguments = parser.parse_args()
    table = jobs_of(arguments.gpus)
    print(json.dumps(real.versions()), flush=True)
    logs = Path(arguments.keep or tempfile.mkdtemp(prefix="ss-real-"))
    names = [n for n in arguments.jobs.split(",") if n] or list(table)
    results = [run(n, table[n], arguments.gpus, logs) for n in names]
    print(f"real_run: {sum(results)} of {len(results)} right", flush=True)
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())

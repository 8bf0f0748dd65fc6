"""What watching costs on a GPU: arms in turn, ratio of step time to the bare arm of the same round, with its spread.

    python tests/gpu/real_overhead.py [--gpus N] [--rounds 6] [--sizes tiny,short,middle,long,graphs] [--one-queue]

Each run is a process forked from this one, which has imported torch and not touched the GPU: the import, the longest part of a
run, is paid once. A watched run gets its hooks as a program does that imported torch before them. `bare_again` is the bare
arm a second time: its ratio is the noise. Needs no agent; the agent is a process of its own beside the training.
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import shutil
import socket
import statistics
import sys
import tempfile
import time
from pathlib import Path

import real

TRAIN = str(real.HERE / "jobs" / "train_gpu.py")
MIDDLE = ["--layers", "6", "--width", "768", "--batch", "16", "--length", "256", "--steps", "200"]
SIZES = {  # 1, 3.5, 32 and 182 ms on an H100; graphs as middle
    "tiny": ["--layers", "0", "--width", "256", "--batch", "8", "--length", "64", "--steps", "1200"],
    "short": ["--layers", "1", "--width", "256", "--batch", "8", "--length", "64", "--steps", "600"],
    "middle": MIDDLE,
    "long": ["--layers", "12", "--width", "1024", "--batch", "32", "--length", "256", "--steps", "60"],
    "graphs": [*MIDDLE, "--graph"],
}
ARMS = {
    "bare": (False, {}),
    "bare_again": (False, {}),
    "stepscope": (True, {}),
    # With several GPUs only: what part of it the NCCL plugin has, by mode.
    "no_plugin": (True, {"STEPSCOPE_NCCL": "off"}),
    "host": (True, {"STEPSCOPE_NCCL": "host", "STEPSCOPE_NCCL_KERNEL_CLOCK": "off"}),
    "events": (True, {"STEPSCOPE_NCCL": "events", "STEPSCOPE_NCCL_KERNEL_CLOCK": "off"}),
    "end_events": (True, {"STEPSCOPE_NCCL": "end_events", "STEPSCOPE_NCCL_KERNEL_CLOCK": "off"}),
    "clock": (True, {"STEPSCOPE_NCCL": "host", "STEPSCOPE_NCCL_KERNEL_CLOCK": "on"}),
}
ON_ONE, ON_SEVERAL = "bare,bare_again,stepscope", "bare,bare_again,stepscope,no_plugin"


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def become(arguments: list[str], watched: bool, env: dict[str, str], out: Path, shm: str) -> None:
    """In a fresh fork: runs the training and leaves; never returns."""
    code = 1
    try:
        with open(out, "w") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        os.environ.update(env)
        sys.argv = [TRAIN, *arguments]
        if watched:
            os.environ["STEPSCOPE_SHM"] = shm
            runpy.run_path(str(real.package_folder() / "_inject" / "sitecustomize.py"))
        runpy.run_path(TRAIN, run_name="__main__")
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def run(arguments: list[str], ranks: int, watched: bool, env: dict[str, str]) -> tuple[float | None, int, str]:
    """Step time of rank 0 in ms, records in the black boxes, what a failed run said."""
    folder = Path(tempfile.mkdtemp(prefix="ss-cost-"))
    shm = tempfile.mkdtemp(prefix="ss-cost-", dir="/dev/shm")
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    children = []
    for rank in range(ranks):
        who = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks), **address}
        pid = os.fork()
        if pid == 0:
            become([*arguments, "--timing"], watched, {**who, **env}, folder / str(rank), shm)
        children.append(pid)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
    try:
        said = (folder / "0").read_text()
        line = next((text for text in said.splitlines() if text.startswith("TIMING ")), None)
        records = sum(len(box.records) for box in real.ring.read_all(Path(shm))) if watched else 0
        return (float(line.split()[1]) if line and not any(codes) else None), records, said[-1500:]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(shm, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--sizes", default=",".join(SIZES))
    parser.add_argument("--arms", default="", help=f"of {', '.join(ARMS)}; bare among them")
    parser.add_argument("--one-queue", action="store_true")
    parser.add_argument(
        "--seconds", type=float, default=0, help="no new round of a size after so many seconds (0: no limit)"
    )
    chosen = parser.parse_args()
    print(json.dumps(real.versions()), flush=True)
    import torch  # noqa: F401  (for the forks)

    common = {"CUDA_DEVICE_MAX_CONNECTIONS": "1"} if chosen.one_queue else {}
    arms = {name: ARMS[name] for name in (chosen.arms or (ON_SEVERAL if chosen.gpus > 1 else ON_ONE)).split(",")}
    failed = 0
    for size in chosen.sizes.split(","):
        begun = time.monotonic()
        times: dict[str, list[float]] = {arm: [] for arm in arms}
        seen = 0
        for round_ in range(chosen.rounds):
            if chosen.seconds and time.monotonic() - begun > chosen.seconds:
                break
            this: dict[str, float] = {}
            names = list(arms)
            for name in names[round_ % len(names) :] + names[: round_ % len(names)]:
                watched, env = arms[name]
                ms, records, said = run(SIZES[size], chosen.gpus, watched, {**common, **env})
                if ms is None:
                    print(json.dumps({"size": size, "arm": name, "failed": said}), flush=True)
                    failed += 1
                    continue
                this[name] = ms
                seen += records
            if len(this) == len(arms):
                for name, ms in this.items():
                    times[name].append(ms)
        row: dict[str, object] = {
            "size": size,
            "gpus": chosen.gpus,
            "one_queue": chosen.one_queue,
            "rounds": len(times["bare"]),
            "records": seen,
        }
        for name, values in times.items():
            ratios = [v / b for v, b in zip(values, times["bare"])]
            if ratios:
                row[name] = {
                    "step_ms": round(statistics.median(values), 4),
                    "ratio": round(statistics.median(ratios), 4),
                    "ratios": [round(r, 3) for r in ratios],
                }
        print(json.dumps(row), flush=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())

"""Two to four GPUs: stragglers of each kind under DDP and FSDP2, from the device records alone.

python tests/gpu/real_ddp.py --gpus 2 [--faults none,backward,…] [--mode auto|fsdp]     # about 20 s per fault
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

import real
from real import median, report, train

FAULTS = ("none", "backward", "forward", "optimizer", "host", "input", "bandwidth")


def one(fault: str, gpus: int, mode: str, env: dict[str, str]) -> bool:
    culprit = gpus - 1
    out, boxes, code = train(
        "--steps",
        "60",
        "--onset",
        "10",
        "--fault",
        fault,
        "--rank",
        str(culprit),
        "--mode",
        mode,
        ranks=gpus,
        env=env,
        timeout=150,
    )
    boxes = [b for b in boxes if b.rank >= 0 and b.of("Optimizer<")]
    name = f"{mode}_{fault}"
    if code != 0 or len(boxes) != gpus:
        return report(name, False, code=code, rings=len(boxes), out=out[-2500:])
    ranks = []
    for box in boxes:
        steps = real.Steps(box)
        row = {k: median(v, 20) for k, v in steps.table().items()}
        row["host_backward"] = median(steps.host("Backward"), 20)
        row["host_bound_share"] = round(
            sum(bool(r.flags & 2) for r in box.of("GpuMark")) / max(1, len(box.of("GpuMark"))), 2
        )
        row["marks"] = len(box.of("GpuMark"))
        ranks.append(row)
    blame = real.blame(boxes)
    ops = real.collectives(boxes)
    transfer = sum(min(row) for row in ops.values())
    size = {(r.a, r.b): r for r in boxes[0].of("NcclOp")}
    ok = bool(ops)
    if fault in ("backward", "forward", "optimizer", "host", "input"):
        ok = ok and blame.index(max(blame)) == culprit and max(blame) > 3 * (sorted(blame)[-2] + 0.1)
    return report(
        name,
        ok,
        ranks=ranks,
        blame_ms=blame,
        collectives=len(ops),
        transfer_ms=round(transfer, 1),
        ops=len(size),
        facts=[f for f in boxes[0].named(9) if f.startswith("nccl")],
        unavailable=boxes[0].named(8),
    )


def exposed_against_profiler(gpus: int, env: dict[str, str]) -> bool:
    """Time that the compute stream stands still for communication: ours (tail of backward up to the end of the last collective) against kernels on the same steps."""
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "spans.json"
        out, boxes, code = real.start([str(real.HERE / "jobs" / "profiled_gpu.py"), str(trace)], gpus, True, env, 180)
        boxes = [b for b in boxes if b.rank == 0 and b.of("Optimizer<")]
        if code != 0 or not boxes or not trace.exists():
            return report("exposed_vs_profiler", False, code=code, out=out[-2000:])
        profiled = json.loads(trace.read_text())
    tails = real.exposed_tails(boxes[0])
    pairs = [(tails[s], t) for s, t in zip(profiled["steps"], profiled["exposed"]) if tails[s] is not None]
    if not pairs:
        return report("exposed_vs_profiler", False, why="no device times")
    off = statistics.median(abs(o - t) for o, t in pairs)
    theirs = statistics.median(t for _, t in pairs)
    return report(
        "exposed_vs_profiler",
        off <= max(0.05 * theirs, 0.1),
        ours_ms=round(statistics.median(o for o, _ in pairs), 3),
        profiler_ms=round(theirs, 3),
        median_off_us=round(off * 1e3, 1),
        steps=len(pairs),
    )


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--faults", default=",".join(FAULTS))
    parser.add_argument("--mode", default="auto", choices=("auto", "fsdp"))
    parser.add_argument("--exposed", action="store_true", help="only: exposed communication against torch.profiler")
    parser.add_argument("--one-queue", action="store_true", help="CUDA_DEVICE_MAX_CONNECTIONS=1")
    arguments = parser.parse_args()
    print(json.dumps(real.versions()), flush=True)
    # Every collective is compared here, so every step is timed; by itself the recorder times one in sixteen.
    env = (
        {"CUDA_DEVICE_MAX_CONNECTIONS": "1", "STEPSCOPE_NCCL": "end_events"}
        if arguments.one_queue
        else {"STEPSCOPE_NCCL": "events"}
    )
    if arguments.exposed:
        return 0 if exposed_against_profiler(arguments.gpus, env) else 1
    results = [one(fault, arguments.gpus, arguments.mode, env) for fault in arguments.faults.split(",")]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())

"""One GPU: phase times against torch.profiler on the same steps, syncs with their line, memory growth, CUDA graphs.

python tests/gpu/real_single.py        # about 2 minutes; exit code 0 = all within bounds
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from pathlib import Path

import real
from real import median, report, train

PROFILED = Path(real.HERE) / "jobs" / "profiled_gpu.py"


def phases_against_profiler() -> bool:
    """Same boundary on both sides: a phase ends where the last kernel launched in it ends."""
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "spans.json"
        out, boxes, code = real.start([str(PROFILED), str(trace)], 0, True, {}, 180)
        if code != 0 or not boxes or not trace.exists():
            return report("phases_vs_profiler", False, code=code, out=out[-2000:])
        profiled = json.loads(trace.read_text())
    table = real.Steps(boxes[0]).table()
    ok, figures = True, {}
    for phase in ("forward", "backward", "optimizer"):
        ours = [table[phase][step] for step in profiled["steps"]]
        theirs = profiled[phase]
        pairs = [(o, t) for o, t in zip(ours, theirs) if o is not None]
        if not pairs:
            ok, figures[phase] = False, "no device times"
            continue
        off = [abs(o - t) for o, t in pairs]
        within = [d <= max(0.03 * t, 0.05) for d, (_, t) in zip(off, pairs)]
        figures[phase] = {
            "ours_ms": round(statistics.median(o for o, _ in pairs), 3),
            "profiler_ms": round(statistics.median(t for _, t in pairs), 3),
            "median_off_us": round(statistics.median(off) * 1e3, 1),
            "within": f"{sum(within)}/{len(within)}",
        }
        ok &= statistics.median(off) <= max(0.03 * statistics.median(t for _, t in pairs), 0.05)
    return report("phases_vs_profiler", ok, **figures)


def state_of(boxes) -> dict:
    status = boxes[0].of("GpuStatus")[-1] if boxes and boxes[0].of("GpuStatus") else None
    marks = boxes[0].of("GpuMark") if boxes else []
    return {
        "marks": len(marks),
        "host_bound": sum(bool(r.flags & 2) for r in marks),
        "missing": status and status.b,
        "errors": status and status.c,
        "bracket_us": status and status.d / 1e3,
        "unavailable": boxes[0].named(8) if boxes else None,
        "facts": boxes[0].named(9) if boxes else None,
    }


def plain() -> bool:
    out, boxes, code = train("--steps", "40")
    if code != 0 or not boxes:
        return report("plain", False, code=code, out=out[-2000:])
    table = real.Steps(boxes[0]).table()
    device = {k: median(v) for k, v in table.items()}
    host = {k: median(real.Steps(boxes[0]).host(k)) for k in ("Forward", "Backward", "Optimizer", "H2d")}
    ok = device["forward"] is not None and device["step"] is not None and device["step"] > 0
    return report("plain", bool(ok), device_ms=device, host_ms=host, **state_of(boxes))


def item() -> bool:
    out, boxes, code = train("--steps", "40", "--fault", "item", "--onset", "5")
    spans = boxes[0].spans("Sync") if boxes else []
    sites = {boxes[0].names.get((11, b.a), "?") for b, _ in spans} if boxes else set()
    lines = Path(real.HERE, "jobs", "train_gpu.py").read_text().splitlines()
    wanted = "train_gpu.py:" + str(next(i + 1 for i, text in enumerate(lines) if "# LINE item" in text))
    ok = code == 0 and wanted in sites and sum(boxes[0].names.get((11, b.a)) == wanted for b, _ in spans) >= 30
    figures = [(e.time - b.time) / 1e6 for b, e in spans if boxes[0].names.get((11, b.a)) == wanted]
    return report(
        "item", ok, sites=sorted(sites), spans=len(spans), median_ms=median(figures, 0), out="" if ok else out[-1500:]
    )


def creep() -> bool:
    out, boxes, code = train("--steps", "150", "--fault", "creep", "--onset", "0", "--mb", "8", "--layers", "2")
    at = [r for r in boxes[0].of("Memory") if r.flags == real.OPTIMIZER | real.END << 8] if boxes else []
    ends = [r.time for r in boxes[0].of("Optimizer<")] if boxes else []
    if code != 0 or len(at) < 10:
        return report("creep", False, code=code, readings=len(at), out=out[-1500:])
    steps = sum(at[3].time < t <= at[-1].time for t in ends)
    slope = (at[-1].a - at[3].a) / max(steps, 1) / 2**20
    return report("creep", abs(slope - 8) <= 0.8, mb_per_step=round(slope, 3), readings=len(at))


def out_of_memory() -> bool:
    code = "import torch\nx=torch.nn.Linear(8,8).cuda()\no=torch.optim.SGD(x.parameters(),1)\n"
    code += "for i in range(3):\n  x(torch.ones(4,8,device='cuda')).sum().backward(); o.step()\n"
    code += "try: torch.empty(1<<42,dtype=torch.uint8,device='cuda')\nexcept torch.OutOfMemoryError: print('OOM')\n"
    out, boxes, rc = real.start(["-c", code], 0, True, {}, 60)
    found = boxes[0].of("OutOfMemory") if boxes else []
    ok = rc == 0 and "OOM" in out and len(found) == 1 and found[0].a == 1 << 42
    detail = [(r.a, r.b, r.c, r.d) for r in (boxes[0].of("OutOfMemory", "OutOfMemoryDetail") if boxes else [])]
    return report("out_of_memory", ok, records=detail, out="" if ok else out[-1500:])


def graphs() -> bool:
    out, boxes, code = train("--steps", "30", "--layers", "2", "--compile", "reduce-overhead", timeout=240)
    if code != 0 or not boxes:
        return report("cuda_graphs", False, code=code, out=out[-2500:])
    table = real.Steps(boxes[0]).table()
    late = [v for v in table["step"][20:] if v is not None]
    state = state_of(boxes)
    captured = sum(bool(r.flags & 1) for r in boxes[0].of("GpuMark"))
    return report(
        "cuda_graphs",
        len(late) >= 8 and state["errors"] == 0,
        captured=captured,
        step_ms=median(table["step"], 20),
        **state,
    )


if __name__ == "__main__":
    print(json.dumps(real.versions()), flush=True)
    chosen = sys.argv[1:] or ["plain", "phases_against_profiler", "item", "creep", "out_of_memory", "graphs"]
    results = [globals()[name]() for name in chosen]
    sys.exit(0 if all(results) else 1)

#!/usr/bin/env python3
"""What node 0 alone says of two-node jobs with known faults, one row per job (network namespaces: see netns.py).

run_nodes.py                          all cases
run_nodes.py --case 2:backward:40     one: rank:phase:ms, or healthy
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from netns import Nodes, unavailable
from node_runs import RANKS_PER_NODE, run_job

PHASES = ("input", "forward", "backward", "optimizer")
CASES = ["healthy", *(f"{rank}:{phase}:40" for rank in (2, 1) for phase in PHASES), "2:backward:40,3:backward:40"]
KIND = {"input": "INPUT_STRAGGLER"}  # of a phase; the others' is COMPUTE_STRAGGLER
NEVER = ("COMM_BOUND", "COMPUTE_BOUND", "BALANCED")  # claims about ranks that nobody saw


def problems(case: str, loud: list[dict]) -> list[str]:
    """What node 0 must not, or must, say loudly."""
    faults = [] if case == "healthy" else [fault.split(":") for fault in case.split(",")]
    named = [f for f in loud if "STRAGGLER" in f["kind"]]
    wrong = [f"{f['kind']} {f['severity']}" for f in loud if f["kind"] in NEVER]
    wrong += [f"{f['kind']} names {f['ranks']}" for f in named if set(f["ranks"]) - {int(rank) for rank, *_ in faults}]
    for rank, phase, _ in faults:
        kind = KIND.get(phase, "COMPUTE_STRAGGLER")
        if int(rank) >= RANKS_PER_NODE:
            wrong += [f"{f['kind']} names the unseen {rank}" for f in named if int(rank) in f["ranks"]]
            wrong += [] if any(f["kind"] == "INCOMPLETE_DATA" for f in loud) else ["INCOMPLETE_DATA is missing"]
        elif not any(f["kind"] == kind and f["ranks"] == [int(rank)] for f in named):
            wrong.append(f"{kind} of rank {rank} is missing")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", help="rank:phase:ms, several with commas, or healthy")
    parser.add_argument("--steps", default="80")
    args = parser.parse_args()
    if why := unavailable():
        print(f"skipped: {why}")
        return 0
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # a stopped table leaves no namespace
    bad = 0
    for case in args.case or CASES:
        faults = [] if case == "healthy" else [w for f in case.split(",") for w in ("--fault", f"{f}:sleep")]
        with tempfile.TemporaryDirectory() as folder, Nodes(2) as nodes:
            outcomes = run_job(nodes, Path(folder), [0], "--steps", args.steps, *faults)
        ends = [f"node {k} ended with {o.rc}" for k, o in enumerate(outcomes) if o.rc]
        loud = outcomes[0].loud()
        wrong = ends + ([] if outcomes[0].summary else ["no summary"]) + problems(case, loud)
        said = ", ".join(f"{f['kind']} {f['severity']} r{f['ranks']} {f['phase']}" for f in loud) or "silent"
        print(f"{'BAD' if wrong else 'ok':4}{case:30}{said}", flush=True)
        for line in wrong:
            print(f"    {line}")
        if wrong:
            print(json.dumps(loud))
        bad += bool(wrong)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

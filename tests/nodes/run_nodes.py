#!/usr/bin/env python3
"""Two-node jobs with known faults in network namespaces (netns.py), one row per case and seed.

run_nodes.py                          all cases, both nodes observed: node 0 must say what all ranks' figures say
run_nodes.py --alone                  node 0 alone is observed: it must accuse nobody whom it does not see
run_nodes.py --case 2:backward:40     one: rank:phase:ms, or healthy
"""

from __future__ import annotations

import argparse
import itertools
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


def faults_of(case: str) -> list[list[str]]:
    return [] if case == "healthy" else [fault.split(":") for fault in case.split(",")]


def problems_of_all(case: str, loud: list[dict]) -> list[str]:
    """What node 0 must say loudly of a job of which it sees all: the late ranks, each by its kind and phase."""
    late: dict[tuple[str, str], set[int]] = {}
    for rank, phase, _ in faults_of(case):
        key = (KIND.get(phase, "COMPUTE_STRAGGLER"), "input_wait" if phase == "input" else phase)
        late.setdefault(key, set()).add(int(rank))
    named = {(f["kind"], f["phase"]): set(f["ranks"]) for f in loud if "STRAGGLER" in f["kind"]}
    wrong = [] if named == late else [f"named {named}, late are {late}"]
    return wrong + [f"{f['kind']} {f['severity']}" for f in loud if f["kind"] in ("COMM_BOUND", "INCOMPLETE_DATA")]


def problems_alone(case: str, loud: list[dict]) -> list[str]:
    """What node 0 must not, or must, say loudly of a job of which it sees half."""
    faults = faults_of(case)
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
    parser.add_argument("--alone", action="store_true", help="observe node 0 alone")
    parser.add_argument("--steps", default="80")
    parser.add_argument("--seeds", type=int, default=1)
    args = parser.parse_args()
    if why := unavailable():
        print(f"skipped: {why}")
        return 0
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # a stopped table leaves no namespace
    bad = 0
    watched, problems = ([0], problems_alone) if args.alone else ([0, 1], problems_of_all)
    for case, seed in itertools.product(args.case or CASES, range(args.seeds)):
        faults = [w for f in faults_of(case) for w in ("--fault", ":".join(f) + ":sleep")]
        words = ["--steps", args.steps, "--seed", str(seed), *faults]
        with tempfile.TemporaryDirectory() as folder, Nodes(2) as nodes:
            outcomes = run_job(nodes, Path(folder), watched, *words)
        ends = [f"node {k} ended with {o.rc}" for k, o in enumerate(outcomes) if o.rc]
        loud = outcomes[0].loud()
        wrong = ends + ([] if outcomes[0].summary else ["no summary"]) + problems(case, loud)
        said = ", ".join(
            f"{f['kind']} {f['severity']} r{f['ranks']} {f['phase']} at {f['steps']['detected']}" for f in loud
        )
        print(f"{'BAD' if wrong else 'ok':4}{case:30}{seed:<3}{said or 'silent'}", flush=True)
        for line in wrong:
            print(f"    {line}")
        if wrong:
            print(json.dumps(loud))
        bad += bool(wrong)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

"""A job of two nodes, two ranks each: tests/truth/job.py, each node under `stepscope run` or bare."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from netns import Nodes

from jobs import ROOT, Outcome, environment, observed, python, summary

JOB = ROOT / "tests" / "truth" / "job.py"
NODES, RANKS_PER_NODE = 2, 2


def launch_of(node: int, *words: str) -> list[Path | str]:
    """torchrun's static rendezvous, as a user types it on each node."""
    return [
        *(python(), "-m", "torch.distributed.run"),
        *(f"--nnodes={NODES}", f"--node-rank={node}", f"--nproc-per-node={RANKS_PER_NODE}"),
        *(f"--master-addr={Nodes.address(0)}", "--master-port=29500"),
        *(JOB, *words),
    ]


def run_job(nodes: Nodes, logs: Path, watched: Sequence[int], *words: str, timeout_s: float = 120) -> list[Outcome]:
    """The whole job; one outcome per node, of watched ones with folder and summary (logs/node<k>)."""
    env = environment(OMP_NUM_THREADS="1")
    started = []
    for node in range(NODES):
        command = launch_of(node, *words)
        if node in watched:
            command = observed(logs, nodes.hostname(node), "--", *command)
        started.append(nodes.start(node, command, env))
    outcomes = [job.finish(timeout_s) for job in started]
    for node in watched:
        outcomes[node].folder = logs / nodes.hostname(node)
        outcomes[node].summary = summary(logs / nodes.hostname(node))
    return outcomes

"""A job of two nodes, by default two ranks each and tests/truth/job.py, each node under `stepscope run` or bare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from netns import Nodes

from jobs import ROOT, Job, Outcome, environment, observed, python, summary

JOB = ROOT / "tests" / "truth" / "job.py"
NODES, RANKS_PER_NODE = 2, 2


def launch_of(node: int, words: Sequence[Path | str], ranks: int = RANKS_PER_NODE) -> list[Path | str]:
    """torchrun's static rendezvous, as a user types it on each node."""
    return [
        *(python(), "-m", "torch.distributed.run"),
        *(f"--nnodes={NODES}", f"--node-rank={node}", f"--nproc-per-node={ranks}"),
        *(f"--master-addr={Nodes.address(0)}", "--master-port=29500"),
        *words,
    ]


def start_job(
    nodes: Nodes,
    logs: Path,
    watched: Sequence[int],
    *words: Path | str,
    ranks: int = RANKS_PER_NODE,
    each: Sequence[Sequence[str]] = ((), ()),
    env: Mapping[str, str] | None = None,
) -> list[Job]:
    """The job's two launches. ``each``: options of `stepscope run` by node."""
    whole = environment(OMP_NUM_THREADS="1", **(env or {}))
    started = []
    for node in range(NODES):
        command = launch_of(node, words, ranks)
        if node in watched:
            command = observed(logs, nodes.hostname(node), *each[node], "--", *command)
        started.append(nodes.start(node, command, whole))
    return started


def end_job(started: Sequence[Job], logs: Path, watched: Sequence[int], timeout_s: float = 120) -> list[Outcome]:
    """One outcome per node, of watched ones with folder and summary (logs/node<k>)."""
    outcomes = [job.finish(timeout_s) for job in started]
    for node in watched:
        outcomes[node].folder = logs / Nodes.hostname(node)
        outcomes[node].summary = summary(logs / Nodes.hostname(node))
    return outcomes


def run_job(nodes: Nodes, logs: Path, watched: Sequence[int], *words: str, timeout_s: float = 120) -> list[Outcome]:
    """tests/truth/job.py from start to end."""
    return end_job(start_job(nodes, logs, watched, JOB, *words), logs, watched, timeout_s)

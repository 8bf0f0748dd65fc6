"""Slurm over two nodes: `stepscope run` behind srun, before each rank or before torchrun, and where it sees one node only."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import slurm
from netns import Nodes
from slurm import Slurm

from jobs import ROOT, Outcome, binary, environment, python, summary

JOB = ROOT / "tests" / "truth" / "job.py"
SRUN = ("srun", "-N2", "-n2")
WORDS = ("--steps", "120", "--fault", "1:backward:40:sleep")
# srun tells a program its place in its own words; this is how scripts hand it to torch.
PLACE = 'export RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS LOCAL_RANK=$SLURM_LOCALID; exec "$@"'
TORCHRUN = """
stepscope=$1 python=$2; shift 2
exec "$stepscope" run -- "$python" -m torch.distributed.run --nnodes=2 --node-rank="$SLURM_NODEID" --nproc-per-node=1 \\
  --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" "$@"
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.skipif(slurm.unavailable() is not None, reason=str(slurm.unavailable())),
]


@pytest.fixture
def cluster() -> Iterator[Slurm]:
    with tempfile.TemporaryDirectory() as folder, Nodes(2) as nodes:
        yield Slurm(nodes, Path(folder))


def run(cluster: Slurm, tmp_path: Path, *words: Path | str) -> tuple[Outcome, dict[str, dict]]:
    """The launch's outcome, and the summaries that were written: "whole" of both ranks, "part" of fewer."""
    env = environment(
        MASTER_ADDR=Nodes.address(0), MASTER_PORT="29500", OMP_NUM_THREADS="1", STEPSCOPE_LOGS_DIR=str(tmp_path)
    )
    outcome = cluster.start(words, env).finish(150).check()
    found = {}
    for folder in tmp_path.iterdir():
        if text := summary(folder):
            found["whole" if text["run"]["ranks_seen"] == 2 else "part"] = text
    return outcome, found


def named(text: dict) -> list[tuple[str, list[int], str]]:
    return [(f["kind"], f["ranks"], f["phase"]) for f in text["findings"] if f["severity"] != "info" and f["ranks"]]


@pytest.mark.parametrize("launcher", ["each rank", "torchrun"])
def test_one_verdict_behind_srun(cluster: Slurm, tmp_path: Path, launcher: str) -> None:
    if launcher == "torchrun":
        words = [*SRUN, "sh", "-c", TORCHRUN, "sh", binary(), python(), JOB, *WORDS]
    else:
        words = [*SRUN, "sh", "-c", PLACE, "sh", binary(), "run", "--", python(), JOB, *WORDS]
    outcome, found = run(cluster, tmp_path, *words)
    assert set(found) == {"whole", "part"}, outcome.stdout + outcome.stderr
    slow = named(found["whole"])
    assert [(kind, phase) for kind, _, phase in slow] == [("COMPUTE_STRAGGLER", "backward")], outcome.stderr
    assert found["whole"]["run"]["nodes"] == 2
    assert outcome.stderr.count("Verdict of the whole job: ") == 1, outcome.stderr
    assert "COMPUTE STRAGGLER" in outcome.stderr


def test_before_srun_one_node_is_seen_and_it_says_what_to_do(cluster: Slurm, tmp_path: Path) -> None:
    outcome, found = run(
        cluster, tmp_path, binary(), "run", "--", *SRUN, "sh", "-c", PLACE, "sh", python(), JOB, *WORDS
    )
    assert "whole" not in found and len(found) == 1, outcome.stdout
    text = found["part"]
    assert not named(text), outcome.stderr
    assert any("put stepscope run behind it" in note for note in text["observer"]["notes"]), text["observer"]

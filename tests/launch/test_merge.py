"""`stepscope merge`: a job of several nodes, each with a run folder of its own, judged as a whole."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from launches import Launch, refused

from jobs import python

# Rank 1 sleeps inside of its backward.
JOB = """
import os, time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))


class Slow(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        time.sleep(0.03 * rank)
        return grad


optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(100):
    optimizer.zero_grad()
    Slow.apply(model(torch.randn(16, 64))).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def node(launch: Launch, rank: int, port: int) -> list[str]:
    torchrun = [python(), "-m", "torch.distributed.run", "--nnodes=2", f"--node-rank={rank}", "--nproc-per-node=1"]
    where = ["--master-addr=127.0.0.1", f"--master-port={port}", "job.py"]
    alone = ["--aggregator", "off", "--logs-dir", f"node{rank}"]
    return ["run", "--run-name", "r", *alone, "--", *torchrun, *where]


def stragglers(summary: dict) -> list[tuple[list[int], str]]:
    return [(f["ranks"], f["phase"]) for f in summary["findings"] if f["kind"] == "COMPUTE_STRAGGLER"]


@pytest.mark.slow
def test_two_nodes_name_the_straggler_together(launch: Launch) -> None:
    (launch.folder / "job.py").write_text(JOB)
    port = free_port()
    nodes = [launch.start(*node(launch, rank, port)) for rank in (0, 1)]
    for process in nodes:
        err = process.communicate(timeout=120)[1]
        assert process.returncode == 0, err.decode()
    halves = [launch.summary("r", f"node{rank}") for rank in (0, 1)]
    assert [h["run"]["ranks_seen"] for h in halves] == [1, 1]
    assert not any(([1], "backward") in stragglers(h) for h in halves)

    done = launch.run("merge", "node0/r", "node1/r", "-o", "whole", "--html")
    assert done.returncode == 0 and done.stderr == b"", done.stderr
    whole = json.loads((launch.folder / "whole/final_summary.json").read_text())
    assert stragglers(whole) == [([1], "backward")]
    run = whole["run"]
    assert (run["name"], run["nodes"], run["world_size"], run["ranks_seen"]) == ("whole", 2, 2, 2)
    assert run["status"] == "completed" and run["exit_code"] == 0
    assert whole["steps"]["count"] == 100
    assert any("clock of node1/r" in note for note in whole["observer"]["notes"])
    assert (launch.folder / "whole/final_summary.html").exists()
    assert done.stdout.decode() == (launch.folder / "whole/final_summary.txt").read_text()

    again = launch.run("report", "whole", "--rebuild", "--json")
    assert stragglers(json.loads(again.stdout)) == [([1], "backward")]
    assert "holds a run already" in refused(launch, "merge", "node0/r", "node1/r", "-o", "whole")
    assert "both hold rank 0 of attempt 1" in refused(launch, "merge", "node0/r", "node0/r/run.db", "-o", "no")
    assert not Path(launch.folder / "no").exists()


def test_what_is_no_run_is_refused(launch: Launch) -> None:
    (launch.folder / "empty").mkdir()
    (launch.folder / "bad.db").write_bytes(b"SQLite format 3\0" + bytes(100))
    assert "empty: no run.db in it" in refused(launch, "merge", "empty", "-o", "whole")
    assert "nothing: no such file" in refused(launch, "merge", "nothing", "-o", "whole")
    assert "bad.db" in refused(launch, "merge", "bad.db", "-o", "whole")
    assert "--output" in refused(launch, "merge", "empty")

"""Jobs of several nodes in network namespaces: one verdict for the whole job, and what a node says of ranks it does not see."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from netns import Nodes, unavailable
from node_runs import JOB, end_job, run_job, start_job

from jobs import ROOT, Job, Outcome, agent_pid, environment, python

UNSEEN = (2, 3)  # the ranks of node 1


@pytest.fixture(autouse=True)
def nodes_allowed() -> None:
    if why := unavailable():
        pytest.skip(why)


# Says "refused" where a node was reached: nobody listens there. Neighbours need a moment to find each other again.
KNOCK = """
import socket, sys, time
end = time.monotonic() + float(sys.argv[2])
while True:
    try:
        socket.create_connection((sys.argv[1], 7), 1)
    except OSError as e:
        said = "refused" if isinstance(e, ConnectionRefusedError) else "away"
    if said == "refused" or time.monotonic() > end:
        break
    time.sleep(0.05)
print(said)
"""


def knock(nodes: Nodes, address: str, patience_s: float) -> str:
    """From node 1."""
    return (
        nodes.start(1, [python(), "-c", KNOCK, address, str(patience_s)], environment())
        .finish(30)
        .check()
        .stdout.strip()
    )


def test_nodes_see_each_other_and_nothing_else() -> None:
    with Nodes(2) as nodes:
        look = ["sh", "-c", "hostname; ls /dev/shm; ls /sys/class/net"]
        assert nodes.start(0, look, environment()).finish(20).check().stdout.split() == ["node0", "eth0", "lo"]
        assert knock(nodes, nodes.address(0), 10) == "refused"
        assert knock(nodes, "192.0.2.1", 0) == "away"
        nodes.link(1, up=False)
        assert knock(nodes, nodes.address(0), 0) == "away"
        nodes.link(1, up=True)
        assert knock(nodes, nodes.address(0), 10) == "refused"


def notes(outcome: Outcome) -> str:
    assert outcome.summary, outcome.stderr
    return "\n".join(outcome.summary["observer"]["notes"])


@pytest.mark.slow
def test_node_0_alone_accuses_nobody_and_says_why(tmp_path: Path) -> None:
    with Nodes(2) as nodes:
        node0, node1 = run_job(nodes, tmp_path, [0], "--steps", "80", "--fault", "2:backward:40:sleep")
    node0.check()
    node1.check()
    assert node0.summary, node0.stderr
    kinds = {f["kind"] for f in node0.loud()}
    assert "INCOMPLETE_DATA" in kinds, node0.stdout
    assert not kinds & {"COMM_BOUND", "BALANCED", "COMPUTE_BOUND"} and not [k for k in kinds if "STRAGGLER" in k], kinds
    assert not [f for f in node0.findings if set(f["ranks"]) & set(UNSEEN) and f["kind"] != "INCOMPLETE_DATA"]
    assert any("2 of 4 ranks were seen" in f["title"] + str(f["evidence"]) for f in node0.loud()), node0.loud()


@pytest.mark.slow
def test_node_0_names_the_straggler_of_node_1(tmp_path: Path) -> None:
    with Nodes(2) as nodes:
        node0, node1 = run_job(nodes, tmp_path, [0, 1], "--steps", "120", "--fault", "2:backward:40:sleep")
    node0.check()
    node1.check()
    ranks = [(f["kind"], f["ranks"], f["phase"]) for f in node0.loud() if f["ranks"]]
    assert ranks == [("COMPUTE_STRAGGLER", [2], "backward")], node0.stdout + node0.stderr
    assert node0.summary["observer"]["coverage"] == 1.0
    assert node0.summary["run"]["ranks_seen"] == 4
    assert f"the verdict of the whole job is on node0: {tmp_path}/node0" in notes(node1)


@pytest.mark.slow
def test_node_0_names_the_rank_of_node_1_that_stands_still(tmp_path: Path) -> None:
    job = ROOT / "tests" / "launch" / "hang_job.py"
    with Nodes(2) as nodes:
        started = start_job(nodes, tmp_path, [0, 1], job, "sleeps", ranks=1, env={"HANG_SECONDS": "15"})
        node0, node1 = end_job(started, tmp_path, [0, 1])
    assert node0.rc != 0 and node1.rc != 0  # by the group's timeout
    hang = next(f for f in node0.loud() if f["kind"] == "HANG")
    assert (hang["ranks"], hang["victims"], hang["cause"]) == ([1], [0], "rank_silent"), node0.stdout
    assert "hang_job.py" in hang["title"] and "sleeps" in hang["title"] + str(hang["evidence"]), hang


@pytest.mark.slow
def test_a_rank_of_node_1_that_raises_is_lost_to_the_job(tmp_path: Path) -> None:
    job = ROOT / "tests" / "launch" / "hang_job.py"
    with Nodes(2) as nodes:
        started = start_job(nodes, tmp_path, [0, 1], job, "fails", ranks=1, env={"HANG_SECONDS": "15"})
        node0, node1 = end_job(started, tmp_path, [0, 1])
    assert node0.rc != 0 and node1.rc != 0
    lost = [f for f in node0.loud() if f["kind"] == "RANK_LOST"]
    assert [f["ranks"] for f in lost if "bad batch" in f["title"] + str(f["evidence"])] == [[1]], node0.stdout


def train_to_step_100(nodes: Nodes, logs: Path) -> list[Job]:
    """A job of 500 steps with a straggler on node 1, once it is there."""
    words = ("--steps", "500", "--say-every", "100", "--fault", "3:forward:40:sleep")
    started = start_job(nodes, logs, [0, 1], JOB, *words)
    assert started[0].wait_for("rank=0 step=100 ", 90)
    return started


def kill_agent(job: Job) -> None:
    found = agent_pid(job.mark.alive())
    assert found, "no agent"
    os.kill(found, signal.SIGKILL)


@pytest.mark.long
def test_a_node_that_is_cut_off_for_a_while_is_counted_once_and_wholly(tmp_path: Path) -> None:
    with Nodes(2) as nodes:
        started = train_to_step_100(nodes, tmp_path)
        nodes.link(1, up=False)
        time.sleep(8)
        nodes.link(1, up=True)
        node0, node1 = end_job(started, tmp_path, [0, 1])
    node0.check()
    node1.check()
    assert node0.summary["observer"]["coverage"] == 1.0, notes(node0)
    assert node0.summary["run"]["ranks_seen"] == 4
    assert ("COMPUTE_STRAGGLER", [3]) in [(f["kind"], f["ranks"]) for f in node0.loud()], node0.stdout


@pytest.mark.long
def test_an_aggregator_that_is_killed_comes_back_and_says_what_is_gone(tmp_path: Path) -> None:
    with Nodes(2) as nodes:
        started = train_to_step_100(nodes, tmp_path)
        kill_agent(started[0])
        node0, node1 = end_job(started, tmp_path, [0, 1])
    node0.check()
    node1.check()
    assert "went to an aggregator before this one" in notes(node0)
    assert ("COMPUTE_STRAGGLER", [3]) in [(f["kind"], f["ranks"]) for f in node0.loud()], node0.stdout


@pytest.mark.long
def test_a_sending_agent_that_is_killed_comes_back_with_its_ranks(tmp_path: Path) -> None:
    with Nodes(2) as nodes:
        started = train_to_step_100(nodes, tmp_path)
        kill_agent(started[1])
        node0, node1 = end_job(started, tmp_path, [0, 1])
    node0.check()
    node1.check()
    assert ("COMPUTE_STRAGGLER", [3]) in [(f["kind"], f["ranks"]) for f in node0.loud()], node0.stdout
    assert not [f for f in node0.findings if f["kind"] in ("RANK_LOST", "HANG")], node0.stdout


@pytest.mark.long
def test_a_node_with_another_secret_keeps_a_verdict_of_its_own(tmp_path: Path) -> None:
    for node in range(2):
        (tmp_path / f"secret{node}").write_text(f"{node}" * 32)
    place = f"{Nodes.address(0)}:8801"
    with Nodes(2) as nodes:
        options = [["--aggregator", place, "--secret-file", str(tmp_path / f"secret{k}")] for k in range(2)]
        started = start_job(nodes, tmp_path, [0, 1], JOB, "--steps", "120", each=options)
        node0, node1 = end_job(started, tmp_path, [0, 1])
    node0.check()
    node1.check()
    assert "the secret of the run is missing or wrong" in node1.stderr + node1.stdout, node1.stderr
    for node in (node0, node1):
        assert "INCOMPLETE_DATA" in {f["kind"] for f in node.findings}, node.stdout
        assert node.summary["run"]["ranks_seen"] == 2

"""Ranks on several nodes: what they leave for their agents, and that the training's store and threads are its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hook_jobs import JOBS

from injected import Runner
from jobs import free_port

OFFER = {"host": "127.0.0.1", "port": 4711, "secret": "0123456789abcdef", "node": "n0", "run_dir": "/r"}


class TwoNodes:
    """Two ranks, each with a shared folder of its own; ``local_world`` is what the launcher tells them."""

    def __init__(self, run: Runner, tmp: Path, seconds: float, kind: str, local_world: str | None = "1") -> None:
        self.folders = [run.shm(), run.shm()]
        self.ranks = []
        port = free_port()
        for rank, folder in enumerate(self.folders):
            extra = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            extra |= {"LOCAL_RANK": "0", "STORE_FILE": str(tmp / "store")}
            if local_world is not None:
                extra["LOCAL_WORLD_SIZE"] = local_world
            command = [sys.executable, str(JOBS / "node.py"), str(seconds), kind]
            environment = run.environment(folder, extra)
            self.ranks.append(subprocess.Popen(command, env=environment, stdout=-1, stderr=-1, text=True))

    def wait_for(self, rank: int, name: str, most_s: float = 60) -> str:
        path = self.folders[rank] / name
        end_s = time.monotonic() + most_s
        while not path.exists():
            assert time.monotonic() < end_s and self.ranks[rank].poll() is None, f"no {name}: {self.end()}"
            time.sleep(0.01)
        return path.read_text()

    def offer(self, rank: int = 0) -> None:
        fresh = self.folders[rank] / "fresh"
        fresh.write_text(json.dumps(OFFER))
        fresh.rename(self.folders[rank] / "aggregator.offer")

    def end(self) -> list[str]:
        told = [process.communicate(timeout=120) for process in self.ranks]
        for process, (out, err) in zip(self.ranks, told, strict=True):
            assert process.returncode == 0, out + err
            assert "sum 2" in out
            assert "TCPStore" not in err and "Traceback" not in err, err
        return [out for out, _ in told]

    def notes(self, rank: int) -> set[str]:
        return {name for name in os.listdir(self.folders[rank]) if name.startswith("aggregator.")}


@pytest.mark.slow
def test_the_store_tells_the_other_node(run: Runner, tmp_path: Path) -> None:
    job = TwoNodes(run, tmp_path, 4, "tcp")
    wish = json.loads(job.wait_for(0, "aggregator.wish"))
    assert wish == {"listen": "127.0.0.1", "tell": "127.0.0.1"}
    assert (job.folders[0] / "aggregator.wish").stat().st_mode & 0o777 == 0o600
    job.offer()
    assert json.loads(job.wait_for(1, "aggregator.found")) == OFFER
    assert (job.folders[1] / "aggregator.found").stat().st_mode & 0o777 == 0o600
    assert all("key True" in out for out in job.end())
    assert "aggregator.found" not in job.notes(0)


@pytest.mark.slow
def test_without_an_agent_that_offers_nothing_is_told(run: Runner, tmp_path: Path) -> None:
    job = TwoNodes(run, tmp_path, 1, "tcp")
    assert all("key False" in out for out in job.end())
    assert "aggregator.found" not in job.notes(1)


def test_one_node_does_nothing(run: Runner, tmp_path: Path) -> None:
    job = TwoNodes(run, tmp_path, 0.5, "tcp", local_world="2")
    job.offer()
    assert all("key False" in out for out in job.end())
    assert job.notes(0) == {"aggregator.offer"} and not job.notes(1)


@pytest.mark.slow
def test_other_launchers_are_told_by_the_ranks_that_are_here(run: Runner, tmp_path: Path) -> None:
    job = TwoNodes(run, tmp_path, 3, "tcp", local_world=None)
    job.wait_for(0, "aggregator.wish")
    job.offer()
    assert json.loads(job.wait_for(1, "aggregator.found")) == OFFER
    job.end()


@pytest.mark.slow
def test_another_store_is_left_alone(run: Runner, tmp_path: Path) -> None:
    job = TwoNodes(run, tmp_path, 1, "file")
    job.end()
    assert not job.notes(0) and not job.notes(1)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_loopback_stays_loopback(host: str) -> None:
    from stepscope.hooks import nodes

    ways = nodes.ways(host)
    assert ways["listen"] == ways["tell"] and ways["listen"] in ("127.0.0.1", "::1")

"""The set of ranks' processes changes: one is replaced, all are numbered anew, another launch follows."""

from __future__ import annotations

import pathlib
import socket
import sys
import textwrap

import pytest
from launches import findings, wait_for

# A supervisor: starts ranks, kills them, starts others; each rank trains until its file "enough" appears.
SUPERVISOR = """
import signal, subprocess

def say(name, text):  # whole or not at all, whenever the process is killed
    with open(f"new-{os.getpid()}", "w") as file:
        file.write(str(text))
    os.replace(f"new-{os.getpid()}", name)

if len(sys.argv) > 1:
    r = FakeRank()
    for i in range(int(sys.argv[1])):
        r.step(4)
        say(f"at-{os.getpid()}", i + 1)
        if os.path.exists(f"enough-{os.getpid()}"):
            break
    open(f"ring-{os.getpid()}-{os.path.exists(r.path)}", "w").close()
    r.close()
    sys.exit(0)

def start(rank, world, steps=100000):
    env = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(world))
    return subprocess.Popen([sys.executable, sys.argv[0], str(steps)], env=env)

def steps_of(p):
    try:
        return int(open(f"at-{p.pid}").read())
    except FileNotFoundError:
        return 0

def until(p, steps):
    while steps_of(p) < steps and p.poll() is None:
        time.sleep(0.01)

def enough(*processes):
    for p in processes:
        open(f"enough-{p.pid}", "w").close()
    for p in processes:
        p.wait()
"""


def supervised(launch, text: str) -> dict:
    result = launch.run("run", "--run-name", "r", launch.script(SUPERVISOR + textwrap.dedent(text)))
    assert result.returncode == 0, result.stderr
    return launch.summary()


@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM"])
def test_a_rank_that_is_replaced_takes_nobody_with_it(launch, how):
    summary = supervised(
        launch,
        f"""
        a, b = start(0, 2), start(1, 2)
        until(a, 50), until(b, 50)
        b.send_signal(signal.{how})
        b.wait()
        b2 = start(1, 2)
        until(b2, 50)
        time.sleep(0.5)
        enough(a, b2)
    """,
    )
    assert summary["run"]["status"] == "completed" and summary["run"]["attempts"] == 1
    lost = findings(summary, "RANK_LOST")
    assert [(f["ranks"], f["severity"]) for f in lost] == ([([1], "warn")] if how == "SIGKILL" else [])
    assert list(launch.folder.glob("ring-*-True")) and not list(launch.folder.glob("ring-*-False")), (
        "a ring in use was unlinked"
    )
    longest = max(int(p.read_text()) for p in launch.folder.glob("at-*"))
    # Nothing holds these ranks together: the newcomer may run ahead of the other by what the machine gives it.
    assert -1 <= summary["steps"]["count"] - longest <= 15
    assert [r["state"] for r in summary["per_rank"]] == ["finished", "finished"]


def test_new_numbers_are_another_attempt(launch):
    summary = supervised(
        launch,
        """
        a = start(0, 1)
        until(a, 60)
        a.terminate(), a.wait()
        b, c = start(1, 2), start(0, 2)
        until(b, 70), until(c, 70)
        enough(b, c)
        say("made", f"{steps_of(a)} {max(steps_of(b), steps_of(c))}")
    """,
    )
    assert summary["run"]["attempts"] == 2 and summary["run"]["status"] == "completed"
    first, second = (int(word) for word in (launch.folder / "made").read_text().split())
    assert abs(summary["steps"]["count"] - first - second) <= 2
    assert findings(summary, "RANK_LOST") == []


def test_two_launches_of_different_size_in_one_script(launch):
    summary = supervised(
        launch,
        """
        a, b = start(0, 2, 40), start(1, 2, 40)
        a.wait(), b.wait()
        c = start(0, 1, 30)
        c.wait()
        d, e, f = start(2, 3, 20), start(1, 3, 20), start(0, 3, 20)
        d.wait(), e.wait(), f.wait()
    """,
    )
    assert summary["run"]["attempts"] == 3
    assert summary["steps"]["count"] == 40 + 30 + 20
    assert summary["observer"]["coverage"] == 1.0
    assert findings(summary, "RANK_LOST") == []


def test_attached_ranks_outlive_a_replaced_one(tmp_path: pathlib.Path):
    """No launcher: the agent that the ranks started goes on, writes its summary and leaves nothing in shared memory."""
    from test_attach import Alone

    alone = Alone(tmp_path)
    rank = """
import os, sys, time
import stepscope
stepscope.init()
i = 0
while not os.path.exists(f"enough-{os.getpid()}"):
    with stepscope.trace_step():
        time.sleep(0.004)
    i += 1
    with open(f"new-{os.getpid()}", "w") as file:  # whole or not at all, whenever the process is killed
        file.write(str(i))
    os.replace(file.name, f"at-{os.getpid()}")
"""
    (tmp_path / "rank.py").write_text(rank)
    try:
        code, out, err = alone.run("""
import subprocess
def start(rank):
    return subprocess.Popen([sys.executable, "rank.py"], env=dict(os.environ, RANK=str(rank), WORLD_SIZE="2"))
def until(p, steps):
    while not (os.path.exists(f"at-{p.pid}") and int(open(f"at-{p.pid}").read()) >= steps):
        assert p.poll() is None
        time.sleep(0.01)
a, b = start(0), start(1)
until(a, 50), until(b, 50)
b.kill(), b.wait()
b2 = start(1)
until(b2, 50)
for p in (a, b2):
    open(f"enough-{p.pid}", "w").close()
for p in (a, b2):
    p.wait()
""")
        assert code == 0, err
        summary = alone.summary()
        assert summary["run"]["attempts"] == 1
        assert [(f["ranks"], f["severity"]) for f in findings(summary, "RANK_LOST")] == [([1], "warn")]
        assert len(list((tmp_path / "logs").iterdir())) == 1
        wait_for(lambda: not alone.shm().exists(), what="the shared folder to go")
    finally:
        alone.close()


# -- torchrun ---------------------------------------------------------------------------------------------------------

WORKER = """
import os, sys, time, pathlib
import torch, torch.nn as nn, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world, restart = dist.get_rank(), dist.get_world_size(), os.environ["TORCHELASTIC_RESTART_COUNT"]
model = DistributedDataParallel(nn.Linear(32, 32))
opt = torch.optim.SGD(model.parameters(), 0.01)
until = {"restart": {0: 5000, 1: 60}[min(int(restart), 1)], "join": {1: 5000, 2: 60}[world]}[sys.argv[1]]
for i in range(until):
    opt.zero_grad()
    model(torch.randn(8, 32)).sum().backward()
    opt.step()
    time.sleep(0.01)
    with open(f"steps-{rank}-{world}-{restart}-{os.getpid()}", "w") as f:
        f.write(str(i + 1))
dist.barrier()
time.sleep(0.3)
dist.destroy_process_group()
"""

# torch 2.15 keeps a launch's store over restarts, and with it the addresses of the first round: a rank that is quicker than
# its peer takes the old one and waits in init_process_group for ever (bare torchrun, too). With this each round has its own.
OWN_STORE = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}

DRIVER = """
import atexit, glob, os, signal, subprocess, sys, time
def steps(pattern):
    return [(int(open(p).read() or 0), p) for p in glob.glob(pattern)]
def until(pattern, count):
    end = time.monotonic() + 90
    while len([1 for n, _ in steps(pattern) if n >= 40]) < count:
        if time.monotonic() > end:
            sys.exit(f"no {count} ranks with 40 steps after 90 s")
        time.sleep(0.02)
def torchrun(*words):
    p = subprocess.Popen([sys.executable, "-m", "torch.distributed.run", *words, "worker.py", sys.argv[1]])
    atexit.register(leave, p)
    return p
def leave(p):  # nothing goes on, and holds our output open, when we give up
    p.terminate()
    try:
        p.wait(10)
    except subprocess.TimeoutExpired:
        p.kill()
if sys.argv[1] == "restart":
    p = torchrun("--standalone", "--nproc-per-node=2", "--max-restarts=2")
    until("steps-*", 2)
    pid = int(steps("steps-1-*")[0][1].rsplit("-", 1)[1])
    os.kill(pid, signal.SIGKILL)
    sys.exit(p.wait(120))
port = sys.argv[2]
node = ["--nnodes=1:2", "--nproc-per-node=1", "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=7",
        "--rdzv-conf=last_call_timeout=1,join_timeout=60", "--local-addr=127.0.0.1", "--max-restarts=3"]
a = torchrun(*node)
until("steps-0-1-*", 1)
b = torchrun(*node)
sys.exit(a.wait(120) or b.wait(120))
"""


def elastic_run(launch, how: str) -> tuple[dict, dict[tuple[str, str], int]]:
    """Summary and steps by (world, restart count). gloo fails now and then when it is started again: up to three tries."""
    (launch.folder / "worker.py").write_text(textwrap.dedent(WORKER))
    (launch.folder / "driver.py").write_text(textwrap.dedent(DRIVER))
    for name in ("r1", "r2", "r3"):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        result = launch.run(
            "run", "--run-name", name, "--", sys.executable, "driver.py", how, str(port), timeout=300, env=OWN_STORE
        )
        made: dict[tuple[str, str], int] = {}
        for path in launch.folder.glob("steps-*"):
            _, _, world, restart, _ = path.name.split("-")
            made[world, restart] = max(made.get((world, restart), 0), int(path.read_text() or 0))
            path.unlink()
        if result.returncode == 0:
            return launch.summary(name), made
    pytest.fail(f"torchrun itself failed three times: {result.stderr[-2000:]!r}")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["restart", "join"])
def test_torchrun_elastic(launch, how):
    pytest.importorskip("torch")
    summary, made = elastic_run(launch, how)
    assert len(made) == 2, made
    assert summary["run"]["attempts"] == 2 and summary["run"]["status"] == "completed"
    assert abs(summary["steps"]["count"] - sum(made.values())) <= 2, made
    lost = findings(summary, "RANK_LOST")
    assert [f["ranks"] for f in lost] == ([[1]] if how == "restart" else []), lost
    assert summary["observer"]["coverage"] > 0.98

#!/usr/bin/env python3
"""What the agent takes for itself: CPU share and memory with eight simulated ranks at ten steps a second.

    python bench/agent_cost.py [--ranks 8] [--rate 10] [--seconds 40]

The ranks are real processes with the real recorder (22 records per step: fetch, forward, backward with six collectives and their
completion, optimizer, usage), without torch. The agent is the one that `stepscope run` starts; its CPU time and memory come from /proc,
after ten seconds of settling. Budget: under 1 % of a core and 64 MiB for eight ranks.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STEPSCOPE = os.environ.get("STEPSCOPE_BIN", "stepscope")
SETTLE_S = 10.0

RANK = r"""
import os, sys, time
rank, world, rate, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world))
from stepscope import _native as native
native.allow_open()
if not native.open():
    sys.exit("the black box does not open: " + native.reason())
native.add_evidence(4)
native.name(4, 7, "default_pg|" + ",".join(map(str, range(world))))
MARK, BEGIN, END = 0, 1, 2
begun, sequence = time.monotonic(), 0
for step in range(int(rate * seconds)):
    time.sleep(max(0.0, begun + step / rate - time.monotonic()))
    native.mark(9, BEGIN, 5); native.mark(9, END, 5)
    native.mark(8, BEGIN, 9, 0, 0, 0, 3); native.mark(8, END, 9)
    native.mark(6, BEGIN, 1)
    for bucket in range(6):
        native.mark(11, MARK, 7, sequence, 1 << 22, 1)
        sequence += 1
    native.mark(7, MARK)
    for bucket in range(6): native.mark(12, MARK, 7, sequence - 6 + bucket, 0, 1)
    native.mark(6, END, 1)
    native.mark(4, BEGIN, 3); native.mark(4, END, 3)
    native.usage()
native.close()
"""


def children(pid: int) -> list[int]:
    out = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                if int(Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                    out.append(int(entry))
            except OSError:
                continue
    return out


def agent_of(launcher: int) -> int | None:
    """The process `stepscope agent …` below the launcher."""
    below = children(launcher)
    for pid in [*below, *(grandchild for child in below for grandchild in children(child))]:
        try:
            if Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[1:2] == [b"agent"]:
                return pid
        except OSError:
            continue
    return None


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mib(pid: int) -> tuple[float, float]:
    """Resident, and of that private to the process (not the mapped black boxes)."""
    rss = private = 0.0
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name == "Rss":
            rss = float(rest.split()[0]) / 1024
        elif name in ("Private_Clean", "Private_Dirty"):
            private += float(rest.split()[0]) / 1024
    return rss, private


def main() -> int:
    p = argparse.ArgumentParser()
    p.add_argument("--ranks", type=int, default=8)
    p.add_argument("--rate", type=float, default=10.0)
    p.add_argument("--seconds", type=float, default=40.0)
    a = p.parse_args()
    spawn = (
        "import subprocess, sys\n"
        f"what = ['{a.ranks}', '{a.rate}', '{a.seconds}']\n"
        f"ps = [subprocess.Popen([sys.executable, '-c', sys.argv[1], str(r), *what]) for r in range({a.ranks})]\n"
        "sys.exit(max(q.wait() for q in ps))\n"
    )
    with tempfile.TemporaryDirectory(prefix="stepscope-agent-") as logs:
        run = subprocess.Popen(
            [STEPSCOPE, "run", "--logs-dir", logs, "--run-name", "agent", "--", sys.executable, "-c", spawn, RANK],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(SETTLE_S)
        agent = agent_of(run.pid)
        if agent is None:
            run.wait()
            raise SystemExit("agent_cost: no agent beside the launcher")
        before, at = cpu_s(agent), time.monotonic()
        time.sleep(a.seconds - SETTLE_S - 5)
        used, passed = cpu_s(agent) - before, time.monotonic() - at
        rss, private = memory_mib(agent)
        code = run.wait()
        summary = json.loads(Path(logs, "agent", "final_summary.json").read_text())
    print(
        f"agent, {a.ranks} ranks at {a.rate:g} steps/s over {passed:.0f} s: {100 * used / passed:.2f} % of a core, "
        f"{rss:.0f} MiB resident, {private:.0f} MiB of it private; {summary['observer']['records']} records, "
        f"{summary['observer']['lost']} lost{'' if code == 0 else f'; the ranks ended with {code}'}"
    )
    return code


if __name__ == "__main__":
    sys.exit(main())

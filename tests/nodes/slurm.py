"""A Slurm cluster of the nodes of netns.py: one controller on node 0, a slurmd on each node, munge beside them.

    with Nodes(2) as nodes:
        slurm = Slurm(nodes, folder)
        job = slurm.start(["srun", "-N2", "-n2", "python", "train.py"], env)

Contract:
  files  everything lies in `folder`, which must be short enough for a socket (100 characters with what is added).
  end    the daemons are jobs of `nodes` and end with them.

Needs Debian's slurm-wlm; unavailable() says what is missing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import netns
from netns import Nodes

from jobs import Job, environment

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sinfo")
PATIENCE_S = 30.0
# A namespace's /sys has none, and slurmd looks for one even where it uses no control groups.
WITH_CGROUP_MOUNT = """
mount -t tmpfs tmpfs /sys/fs/cgroup && mkdir /sys/fs/cgroup/systemd /sys/fs/cgroup/freezer &&
mount -t cgroup -o none,name=systemd cgroup /sys/fs/cgroup/systemd &&
mount -t cgroup -o freezer cgroup /sys/fs/cgroup/freezer && exec "$0" "$@"
"""
CONFIG = """\
ClusterName=nodes
SlurmctldHost={host}({address})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
{nodes}
PartitionName=all Nodes=ALL Default=YES State=UP
"""


def unavailable() -> str | None:
    """Why there can be no cluster here, None = there can."""
    missing = [program for program in PROGRAMS if not shutil.which(program, path=_path())]
    return f"not installed: {', '.join(missing)} (Debian: slurm-wlm)" if missing else netns.unavailable()


def _path() -> str:
    return os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"])


class Slurm:
    """Ready when made; AssertionError where the nodes do not come up."""

    def __init__(self, nodes: Nodes, folder: Path) -> None:
        self.nodes, self.folder = nodes, folder
        self._env = environment("SLURM", "MUNGE") | {"PATH": _path(), "SLURM_CONF": str(folder / "slurm.conf")}
        for name in ("munge", "state", *(f"spool-{nodes.hostname(k)}" for k in range(nodes.count))):
            (folder / name).mkdir(mode=0o700, parents=True)
        self._start_munge()
        cores = os.cpu_count()
        lines = [
            f"NodeName={nodes.hostname(k)} NodeAddr={nodes.address(k)} CPUs={cores} State=UNKNOWN"
            for k in range(nodes.count)
        ]
        text = CONFIG.format(host=nodes.hostname(0), address=nodes.address(0), folder=folder, nodes="\n".join(lines))
        (folder / "slurm.conf").write_text(text)
        self._daemons = [self._start(0, "slurmctld", "-D")]
        for k in range(nodes.count):
            self._daemons.append(self._start(k, "sh", "-c", WITH_CGROUP_MOUNT, "slurmd", "-D", "-N", nodes.hostname(k)))
        self._wait_until_idle()

    def start(self, words: Sequence[Path | str], env: Mapping[str, str]) -> Job:
        """A command that calls srun, on node 0 as from a login shell there."""
        return self.nodes.start(0, words, {**env, "SLURM_CONF": self._env["SLURM_CONF"]})

    def _start(self, node: int, *words: str) -> Job:
        return self.nodes.start(node, words, self._env)

    def _start_munge(self) -> None:
        folder = self.folder / "munge"
        key = folder / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        places = {"socket": "socket", "key-file": "key", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
        options = [f"--{option}={folder / name}" for option, name in places.items()]
        self._munge = self._start(0, "munged", "--force", "--foreground", *options)
        self._wait(lambda: (folder / "socket").exists(), "munge")

    def _wait_until_idle(self) -> None:
        def idle() -> bool:
            look = ["sinfo", "--noheader", "--format=%t %D"]
            done = self.nodes.start(0, look, self._env).finish(20)
            return done.stdout.split() == ["idle", str(self.nodes.count)]

        self._wait(idle, "slurmd on every node")

    def _wait(self, ready, what: str) -> None:
        end = time.monotonic() + PATIENCE_S
        while not ready():
            assert time.monotonic() < end, f"{what} did not come up: {self._logs()}"
            time.sleep(0.2)

    def _logs(self) -> str:
        tails = [
            subprocess.run(["tail", "-n", "3", path], capture_output=True, text=True, check=False).stdout
            for path in sorted(self.folder.glob("*.log"))
        ]
        return "\n".join(tails)

"""Nodes on one machine: network namespaces joined by a bridge, each command with a host name and a /dev/shm of its own.

    with Nodes(2) as nodes:
        jobs_by_node = [nodes.start(k, command, env) for k in range(2)]

Contract:
  reach    a node is 10.77.0.<k+1> on eth0 and sees the other nodes and itself, nothing else; the bridge has a namespace
           of its own, so that the machine's own network stays as it is.
  command  each starts with an empty /dev/shm: one observed launch per node and test.
  end      close() kills what was started, then the namespaces go, and with them links, addresses and queues.

Needs root, iproute2 and util-linux; unavailable() says what is missing.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from jobs import Job

IN_A_NODE = 'hostname "$1" && mount -t tmpfs -o mode=1777 tmpfs /dev/shm && shift && exec "$@"'


def ip(*words: str) -> None:
    """One call of ip; CalledProcessError, with what it said on stderr, where it fails."""
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=20)


@functools.cache
def unavailable() -> str | None:
    """Why there can be no nodes here, None = there can."""
    missing = [tool for tool in ("ip", "unshare") if not shutil.which(tool)]
    if missing:
        return f"not installed: {', '.join(missing)}"
    if os.geteuid() != 0:
        return "network namespaces need root"
    try:
        with Nodes(1) as nodes:
            done = nodes.start(0, ["true"], dict(os.environ)).finish(20)
    except (OSError, subprocess.SubprocessError) as e:
        return f"no network namespaces here: {getattr(e, 'stderr', None) or e}".strip()
    return f"no mounts in a namespace here: {done.stderr.strip()}" if done.rc else None


class Nodes:
    """`count` nodes that see each other; `with` closes them."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.name = f"ss{uuid.uuid4().hex[:8]}"
        self._made: list[str] = []
        self._jobs: list[Job] = []

    def __enter__(self) -> Nodes:
        try:
            self._make("hub")
            ip("-n", self._space("hub"), "link", "add", "br0", "type", "bridge")
            ip("-n", self._space("hub"), "link", "set", "br0", "up")
            for node in range(self.count):
                self._join(node)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @staticmethod
    def address(node: int) -> str:
        return f"10.77.0.{node + 1}"

    @staticmethod
    def hostname(node: int) -> str:
        return f"node{node}"

    def start(self, node: int, command: Sequence[Path | str], env: Mapping[str, str]) -> Job:
        """A command on a node. Gloo takes the node's own interface."""
        inside = ["unshare", "--mount", "--uts", "--propagation", "private", "sh", "-c", IN_A_NODE, "sh"]
        words = ["ip", "netns", "exec", self._space(str(node)), *inside, self.hostname(node), *command]
        self._jobs.append(Job(words, {**env, "GLOO_SOCKET_IFNAME": "eth0"}))
        return self._jobs[-1]

    def link(self, node: int, up: bool) -> None:
        """Cuts a node off, or joins it again; what its programs hold stays open."""
        ip("-n", self._space("hub"), "link", "set", f"port{node}", "up" if up else "down")

    def slow_link(self, node: int, *qdisc: str) -> None:
        """Queues what a node sends and gets, e.g. ``"tbf", "rate", "1mbit", "burst", "32k", "latency", "400ms"``, or netem
        where the kernel has it. CalledProcessError where it has not."""
        for space, device in ((str(node), "eth0"), ("hub", f"port{node}")):
            words = ["tc", "-n", self._space(space), "qdisc", "replace", "dev", device, "root", *qdisc]
            subprocess.run(words, check=True, capture_output=True, text=True, timeout=20)

    def close(self) -> None:
        for job in self._jobs:
            job.bury()
        for space in reversed(self._made):
            subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True, timeout=20)
        self._jobs, self._made = [], []

    def _space(self, name: str) -> str:
        return f"{self.name}-{name}"

    def _make(self, name: str) -> None:
        ip("netns", "add", self._space(name))
        self._made.append(self._space(name))
        ip("-n", self._space(name), "link", "set", "lo", "up")

    def _join(self, node: int) -> None:
        self._make(str(node))
        hub, space = self._space("hub"), self._space(str(node))
        ip("link", "add", f"port{node}", "netns", hub, "type", "veth", "peer", "name", "eth0", "netns", space)
        ip("-n", hub, "link", "set", f"port{node}", "master", "br0", "up")
        ip("-n", space, "addr", "add", f"{self.address(node)}/24", "dev", "eth0")
        ip("-n", space, "link", "set", "eth0", "up")

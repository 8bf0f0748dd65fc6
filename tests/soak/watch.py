"""Processes of the soak, seen through /proc: who belongs to the job, which is the agent, how much memory each holds."""

from __future__ import annotations

from pathlib import Path


def children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*"):
        try:
            found += [int(word) for word in (task / "children").read_text().split()]
        except OSError:
            continue
    return found


def family(pid: int) -> list[int]:
    """``pid`` and all below it."""
    out, at = [pid], 0
    while at < len(out):
        out += children(out[at])
        at += 1
    return out


def words(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


def agent_of(pid: int) -> int:
    """The stepscope agent below ``pid``, 0 = none."""
    for p in family(pid):
        if words(p)[1:2] == ["agent"]:
            return p
    return 0


def memory_kib(pid: int) -> int | None:
    """Anonymous memory in KiB: what a leak grows; the mapped ring and libraries are not in it."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1])
    except OSError:
        pass
    return None

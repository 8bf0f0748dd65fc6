"""Counts what a running job writes into its rings, by a reader of its own (docs/formats/blackbox.md)."""

from __future__ import annotations

import json
import struct
from collections import Counter
from pathlib import Path

import numpy as np
from watch import family

from ring import HEADER_BYTES, KINDS, RECORD_BYTES

_NUMBER = {name: number for number, name in KINDS.items()}
_BEGIN, _END = 1, 2
# What is counted: name → (kind, edge)
COUNTED = {
    "steps": ("Optimizer", _END),
    "steps_begun": ("Optimizer", _BEGIN),
    "saves": ("Save", _END),
    "loaders": ("LoaderCreate", _END),
    "loaders_begun": ("LoaderCreate", _BEGIN),
    "exceptions": ("Exception", 0),
    "forwards": ("Forward", _END),
    "forwards_begun": ("Forward", _BEGIN),
    "backwards": ("Backward", _END),
    "backwards_begun": ("Backward", _BEGIN),
}


class Tapped:
    """One ring, read on from where the last look ended."""

    def __init__(self, path: Path) -> None:
        self.path, self.at, self.missed = path, 0, 0
        self.counts: Counter[str] = Counter()
        self.names_used = self.names_dropped = self.evidence = 0
        with path.open("rb") as f:
            header = f.read(HEADER_BYTES)
        self.names_bytes, self.capacity = struct.unpack_from("<IQ", header, 20)
        (self.rank,) = struct.unpack_from("<i", header, 52)
        (self.pid,) = struct.unpack_from("<i", header, 68)

    def look(self) -> None:
        base = HEADER_BYTES + self.names_bytes
        with self.path.open("rb") as f:
            header = f.read(HEADER_BYTES)
            (self.rank,) = struct.unpack_from("<i", header, 52)
            (self.evidence,) = struct.unpack_from("<Q", header, 168)
            (head,) = struct.unpack_from("<Q", header, 256)
            self.names_used, self.names_dropped = struct.unpack_from("<QQ", header, 320)
            if head - self.at > self.capacity:
                self.missed += head - self.capacity - self.at
                self.at = head - self.capacity
            while self.at < head:
                slot = self.at % self.capacity
                many = int(min(head - self.at, self.capacity - slot))
                f.seek(base + RECORD_BYTES * slot)
                data = np.frombuffer(f.read(RECORD_BYTES * many), dtype="<u8").reshape(-1, 8)
                published = self._count(data)
                self.at += published
                if published < many:  # a record is just being written: the next look goes on with it
                    break

    def _count(self, data: np.ndarray) -> int:
        want = 2 * np.arange(self.at, self.at + len(data), dtype=np.uint64) + 2
        behind = np.flatnonzero(data[:, 0] < want)
        many = int(behind[0]) if len(behind) else len(data)
        whole = data[:many, 0] == want[:many]
        self.missed += many - int(whole.sum())
        packed = data[:many][whole, 2]
        kind, edge = packed & 0xFF, packed >> 8 & 0xFF
        for name, (of, at) in COUNTED.items():
            self.counts[name] += int(((kind == _NUMBER[of]) & (edge == at)).sum())
        return many

    def sizes(self) -> dict[str, int]:
        blocks = self.path.stat().st_blocks // 2 if self.path.exists() else 0
        return {"ring_kib": blocks, "names_bytes": self.names_used, "names_dropped": self.names_dropped}


class Tap:
    """All rings of a job, by rank; ``kept``: where the place and counts stay between two programs."""

    def __init__(self, kept: Path) -> None:
        self.kept, self.rings = kept, dict[str, Tapped]()
        self.before = json.loads(kept.read_text()) if kept.exists() else {}

    def look(self, pid: int) -> dict[int, Tapped]:
        if not any(r.evidence for r in self.rings.values()):
            self._find(pid)
        for ring in list(self.rings.values()):
            try:
                ring.look()
            except FileNotFoundError:  # the agent took it away: the job has ended
                continue
        return {r.rank: r for r in self.rings.values() if r.evidence}

    def _find(self, pid: int) -> None:
        for p in family(pid):
            for path in Path("/dev/shm").glob(f"*/{p}-*.ring"):
                if str(path) not in self.rings:
                    ring = self.rings[str(path)] = Tapped(path)
                    old = self.before.get(str(path))
                    if old:
                        ring.at, ring.missed, ring.counts = old["at"], old["missed"], Counter(old["counts"])

    def keep(self) -> None:
        state = {
            path: {
                "at": r.at,
                "missed": r.missed,
                "rank": r.rank,
                "evidence": r.evidence,
                "counts": r.counts,
                "names_dropped": r.names_dropped,
            }
            for path, r in self.rings.items()
        }
        new = self.kept.with_suffix(".new")
        new.write_text(json.dumps(state))
        new.replace(self.kept)

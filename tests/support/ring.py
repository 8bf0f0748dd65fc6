"""A second, independent reader of the black box (docs/formats/blackbox.md), for tests: plain struct, no native code."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from pathlib import Path

HEADER_BYTES, RECORD_BYTES = 4096, 64
_MASK = 0xFFFFFFFFFFFFFFFF
_ROOT = Path(__file__).resolve().parents[2]


def _kinds() -> dict[int, str]:
    text = (_ROOT / "src/blackbox/event_kind.h").read_text()
    return {int(number): name for name, number in re.findall(r"X\((\w+), (\d+)\)", text)}


KINDS = _kinds()
EDGES = {0: "", 1: ">", 2: "<"}


@dataclass(frozen=True)
class Record:
    """One record. ``what``: "Forward>" begins, "Forward<" ends, "Usage" is a mark. Times in ns, CLOCK_MONOTONIC."""

    index: int
    time: int
    kind: str
    edge: int
    flags: int
    thread: int
    a: int
    b: int
    c: int
    d: int

    @property
    def what(self) -> str:
        return self.kind + EDGES[self.edge]


@dataclass
class Ring:
    """What a black box holds: identity, records in order of claim, names by (kind, id)."""

    path: Path
    rank: int
    local_rank: int
    world_size: int
    node_rank: int
    attempt: int
    pid: int
    evidence: int
    life: int
    process_start_ns: int
    head: int
    records: list[Record]
    names: dict[tuple[int, int], str]
    texts: list[tuple[int, int, str]] = field(default_factory=list)
    torn: int = 0
    names_dropped: int = 0

    def of(self, *whats: str) -> list[Record]:
        return [r for r in self.records if r.what in whats or r.kind in whats]

    def count(self, what: str) -> int:
        return sum(r.what == what for r in self.records)

    def named(self, kind: int) -> list[str]:
        return [text for k, _, text in self.texts if k == kind]

    def spans(self, kind: str) -> list[tuple[Record, Record]]:
        """Begin and end of each span of one kind, inner ones too, matched per thread, in order of their ends."""
        stacks: dict[int, list[Record]] = {}
        out = []
        for r in self.records:
            if r.kind != kind:
                continue
            if r.edge == 1:
                stacks.setdefault(r.thread, []).append(r)
            elif r.edge == 2 and stacks.get(r.thread):
                out.append((stacks[r.thread].pop(), r))
        return out


def _checksum(index: int, words: tuple[int, ...]) -> int:
    h = ((index + 1) * 0x9E3779B97F4A7C15) & _MASK
    for w in words:
        h = ((h ^ w) * 0xFF51AFD7ED558CCD) & _MASK
        h ^= h >> 32
    return h


def read(path: Path | str) -> Ring:
    """Reads one black box whole."""
    data = Path(path).read_bytes()
    magic, version, header_bytes, record_bytes, names_bytes, capacity = struct.unpack_from("<8sIIIIQ", data, 0)
    assert magic == b"STEPSCOP" and version == 1 and header_bytes == HEADER_BYTES and record_bytes == RECORD_BYTES
    attempt, rank, local_rank, world_size, node_rank, pid = struct.unpack_from("<6i", data, 48)
    process_start, _, _, evidence, life, _, _ = struct.unpack_from("<7Q", data, 144)
    (head,) = struct.unpack_from("<Q", data, 256)
    names_head, names_dropped = struct.unpack_from("<2Q", data, 320)
    ring = Ring(
        Path(path), rank, local_rank, world_size, node_rank, attempt, pid, evidence, life, process_start, head, [], {}
    )
    _read_names(ring, data, HEADER_BYTES, min(names_head, names_bytes))
    ring.names_dropped = names_dropped
    base = HEADER_BYTES + names_bytes
    for index in range(max(0, head - capacity), head):
        slot = struct.unpack_from("<8Q", data, base + RECORD_BYTES * (index % capacity))
        if slot[0] != 2 * index + 2 or slot[7] != _checksum(index, slot[1:7]):
            ring.torn += 1
            continue
        time, packed, a, b, c, d = slot[1:7]
        ring.records.append(
            Record(
                index,
                time,
                KINDS.get(packed & 0xFF, "?"),
                packed >> 8 & 0xFF,
                packed >> 16 & 0xFFFF,
                packed >> 32,
                a,
                b,
                c,
                d,
            )
        )
    return ring


def _read_names(ring: Ring, data: bytes, base: int, size: int) -> None:
    at = 0
    while at + 16 <= size:
        ready, kind, length, ident = struct.unpack_from("<IHHQ", data, base + at)
        if ready != 0x4E414D45:
            break
        text = data[base + at + 16 : base + at + 16 + length].decode("utf-8", "replace")
        ring.names[(kind, ident)] = text
        ring.texts.append((kind, ident, text))
        at += 16 + (length + 7) // 8 * 8


def read_all(folder: Path | str) -> list[Ring]:
    """All black boxes of a folder, those with evidence first, by rank."""
    rings = [read(p) for p in Path(folder).glob("*.ring")]
    return sorted(rings, key=lambda r: (r.evidence == 0, r.rank))


def steps(records: list[Record]) -> list[tuple[int, frozenset[int]]]:
    """The step rule of the design on raw events: (end of the step in ns, its optimizers).

    A step closes, in retrospect, at the last optimizer end before an optimizer that has already stepped in it begins
    again with at least one backward (of autograd.grad or torch.func, too) ended since its previous begin. GradScaler.step counts as its optimizer. Without
    any optimizer event each outermost backward end is a boundary.
    """
    out: list[tuple[int, frozenset[int]]] = []
    members: dict[int, int] = {}
    backwards, last_end = 0, 0
    for r in records:
        if r.what == "Backward<":
            backwards += 1
        elif r.what in ("Optimizer>", "ScalerStep>"):
            if r.a in members and backwards > members[r.a]:
                out.append((last_end, frozenset(members)))
                members = {}
            members[r.a] = backwards
        elif r.what in ("Optimizer<", "ScalerStep<"):
            last_end = r.time
    if members and last_end:
        out.append((last_end, frozenset(members)))
    if not out:
        out = [(r.time, frozenset()) for r in records if r.what == "Backward<" and r.a]
    return out

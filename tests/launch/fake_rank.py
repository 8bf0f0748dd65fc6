"""A rank without torch: writes a black box by hand (docs/formats/blackbox.md), as the recorder would.

Imported by the fake trainings of these tests; plain Python, one thread, one process per rank. Times are
CLOCK_MONOTONIC in nanoseconds.
"""

from __future__ import annotations

import mmap
import os
import socket
import struct
import time

HEADER_BYTES, NAMES_BYTES, RECORD_BYTES = 4096, 65536, 64
MARK, BEGIN, END = 0, 1, 2
OPTIMIZER, BACKWARD, FORWARD, FETCH, PROCESS, EXCEPTION, COLLECTIVE = 4, 6, 8, 9, 1, 20, 11
LIFE_TEARDOWN, LIFE_CLOSED, LIFE_EXCEPTION = 1, 2, 4
EVIDENCE_OPTIMIZER = 4
NAME_EXCEPTION, NAME_FACT = 7, 9
_MASK = (1 << 64) - 1
_OFFSETS = {"attempt": 48, "rank": 52, "life": 176, "evidence": 168, "head": 256, "names_head": 320}


def checksum(index: int, words: tuple[int, ...]) -> int:
    """The check word of a slot, as blackbox/layout.h defines it."""
    h = ((index + 1) * 0x9E3779B97F4A7C15) & _MASK
    for word in words:
        h = ((h ^ word) * 0xFF51AFD7ED558CCD) & _MASK
        h ^= h >> 32
    return h


def start_ticks() -> int:
    """Field 22 of /proc/self/stat."""
    with open("/proc/self/stat", encoding="utf-8") as file:
        return int(file.read().rpartition(")")[2].split()[19])


class FakeRank:
    """One rank's black box. Without STEPSCOPE_SHM it is off and does nothing."""

    def __init__(
        self,
        rank: int | None = None,
        world: int | None = None,
        capacity: int = 4096,
        evidence: bool = True,
        version: int = 1,
    ):
        env = os.environ
        self.rank = int(env.get("RANK", 0)) if rank is None else rank
        self.world = int(env.get("WORLD_SIZE", 1)) if world is None else world
        self.capacity, self.index, self.names = capacity, 0, 0
        self.map: mmap.mmap | None = None
        shm = env.get("STEPSCOPE_SHM")
        if not shm:
            return
        self.path = os.path.join(shm, f"{os.getpid()}-{time.monotonic_ns():016x}.ring")
        temporary = self.path + ".tmp"
        size = HEADER_BYTES + NAMES_BYTES + capacity * RECORD_BYTES
        fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        os.ftruncate(fd, size)
        self.map = mmap.mmap(fd, size)
        os.close(fd)
        now = time.monotonic_ns()
        self.map[0:32] = struct.pack(
            "<8sIIIIQ", b"STEPSCOP", version, HEADER_BYTES, RECORD_BYTES, NAMES_BYTES, capacity
        )
        self.map[32:48] = bytes.fromhex(env.get("STEPSCOPE_NONCE", "0" * 32))
        self.map[48:80] = struct.pack(
            "<iiiiiiQ",
            int(env.get("TORCHELASTIC_RESTART_COUNT", 0)),
            self.rank,
            int(env.get("LOCAL_RANK", self.rank)),
            self.world,
            0,
            os.getpid(),
            start_ticks(),
        )
        self.map[80:144] = socket.gethostname().encode()[:63].ljust(64, b"\0")
        self.map[144:168] = struct.pack("<QQQ", now, now, time.time_ns())
        if evidence:
            self.word("evidence", EVIDENCE_OPTIMIZER)
        os.rename(temporary, self.path)
        self.name(NAME_FACT, 1, "torch=0.0-fake")

    def word(self, name: str, value: int) -> None:
        """Stores a 64-bit word of the header."""
        at = _OFFSETS[name]
        self.map[at : at + 8] = struct.pack("<Q", value)

    def put(self, kind: int, edge: int, a: int = 0, b: int = 0, flags: int = 0) -> None:
        """Writes one record, now."""
        if self.map is None:
            return
        payload = struct.pack("<QHHIQQQQ", time.monotonic_ns(), kind | edge << 8, flags, os.getpid(), a, b, 0, 0)
        words = struct.unpack("<6Q", payload)
        i = self.index
        at = HEADER_BYTES + NAMES_BYTES + (i % self.capacity) * RECORD_BYTES
        self.word("head", i + 1)
        self.map[at : at + 8] = struct.pack("<Q", 2 * i + 1)
        self.map[at + 8 : at + 64] = payload + struct.pack("<Q", checksum(i, words))
        self.map[at : at + 8] = struct.pack("<Q", 2 * i + 2)
        self.index += 1

    def name(self, kind: int, ident: int, text: str) -> None:
        """Appends a name."""
        if self.map is None:
            return
        data = text.encode()[:1000]
        at = HEADER_BYTES + self.names
        padded = (len(data) + 7) // 8 * 8
        self.word("names_head", self.names + 16 + padded)
        self.map[at + 16 : at + 16 + len(data)] = data
        self.map[at + 4 : at + 16] = struct.pack("<HHQ", kind, len(data), ident)
        self.map[at : at + 4] = struct.pack("<I", 0x4E414D45)
        self.names += 16 + padded

    def step(self, ms: float = 3.0) -> None:
        """One training step of about `ms` milliseconds: fetch, forward, backward, optimizer."""
        part = ms / 4000
        for kind, a, flags in ((FETCH, 1, 0), (FORWARD, 1, 3), (BACKWARD, 1, 0), (OPTIMIZER, 1, 0)):
            self.put(kind, BEGIN, a, flags=flags)
            if part > 0:
                time.sleep(part)
            self.put(kind, END, a, flags=flags)

    def exception(self, text: str) -> None:
        """An uncaught exception reached the top."""
        self.name(NAME_EXCEPTION, 99, text)
        self.put(EXCEPTION, MARK, 99)
        if self.map is not None:
            self.word("life", LIFE_EXCEPTION | LIFE_TEARDOWN)

    def close(self, exception: bool = False) -> None:
        """The exit handlers have run."""
        self.put(PROCESS, MARK, 3)
        if self.map is not None:
            self.word("life", LIFE_TEARDOWN | LIFE_CLOSED | (LIFE_EXCEPTION if exception else 0))

#!/usr/bin/env python3
"""Writes the seeds of ring_reader_fuzz: 16 bytes of script, then a small black box (docs/formats/blackbox.md).

The seeds beside this file are its output; run it again after a change of the layout.
"""

from __future__ import annotations

import struct
from pathlib import Path

MASK = (1 << 64) - 1
HEADER, NAMES, CAPACITY = 4096, 384, 16


def checksum(index: int, words: tuple[int, ...]) -> int:
    """The check word of a slot."""
    h = (index + 1) * 0x9E3779B97F4A7C15 & MASK
    for w in words:
        h = (h ^ w) * 0xFF51AFD7ED558CCD & MASK
        h ^= h >> 32
    return h


def slot(index: int) -> bytes:
    """A published record number `index`."""
    words = (1000 + index, 4 | 1 << 8 | 77 << 32, index, 2, 3, 4)
    return struct.pack("<8Q", 2 * index + 2, *words, checksum(index, words))


def name(kind: int, id_: int, text: bytes) -> bytes:
    """One ready entry of the names region."""
    return struct.pack("<IHHQ", 0x4E414D45, kind, len(text), id_) + text + bytes(-len(text) % 8)


def ring(head: int, names: bytes = b"", version: int = 1, capacity: int = CAPACITY) -> bytes:
    """A whole file in which `head` records have been written."""
    header = bytearray(HEADER)
    struct.pack_into("<8sIIIIQ", header, 0, b"STEPSCOP", version, HEADER, 64, NAMES, capacity)
    struct.pack_into("<6iQ64s", header, 48, 0, 1, 1, 2, 0, 4242, 99, b"node0")
    struct.pack_into("<6Q", header, 144, 10, 11, 12, 1, 0, 0)
    struct.pack_into("<Q", header, 256, head)
    struct.pack_into("<QQ", header, 320, len(names), 0)
    slots = [bytes(64)] * CAPACITY
    for index in range(max(0, head - CAPACITY), head):
        slots[index % CAPACITY] = slot(index)
    return bytes(header) + names.ljust(NAMES, b"\0") + b"".join(slots)


def main() -> None:
    names = name(1, 7, b"DDP(Model)") + name(5, 8, b"tok\x1b[31m\xff\xc3\xa9") + name(4, 9, b"dp|0,1")
    calm, rough = bytes([5] * 15 + [0]), bytes([8, 30, 2, 9, 4, 200, 12, 60, 1, 5, 28, 250, 3, 7, 21, 0])
    pending = bytearray(ring(10))
    struct.pack_into("<Q", pending, HEADER + NAMES + 5 * 64, 2 * 5 + 1)
    torn = bytearray(ring(10))
    torn[HEADER + NAMES + 5 * 64 + 30] ^= 0x40
    seeds = {
        "empty": calm + ring(0),
        "half": calm + ring(9, names),
        "wrapped": calm + ring(100, names),
        "rough": rough + ring(40, names),
        "pending": calm + bytes(pending),
        "torn": rough + bytes(torn),
        "other_version": calm + ring(3, version=2),
        "odd_capacity": calm + ring(3, capacity=15),
        "too_large": calm + ring(3, capacity=1 << 20),
        "cut": calm + ring(9)[:-100],
        "repaired": rough[:15] + bytes([0x3F]) + bytes(HEADER + 2048),
    }
    for seed, data in seeds.items():
        (Path(__file__).parent / seed).write_bytes(data)


if __name__ == "__main__":
    main()

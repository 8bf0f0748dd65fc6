"""A second, independent reader of the run file's columns (docs/formats/run_file.md), for tests.

Plain Python; zstd and XXH32 come from the system's library and from the lines below.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import sqlite3
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

_MASK32, _MASK64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
_P1, _P2, _P3, _P4, _P5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393


def write_example(path: Path) -> None:
    """A closed run file: 3,000 steps of 4 ranks, rank 1 slow in backward, written by the C++ side."""
    binary = Path(os.environ.get("STEPSCOPE_BUILD_DIR", ROOT / "build/wheel")) / "store_test"
    if not binary.exists():
        pytest.skip(f"{binary} is not built (make unit)")
    command = [str(binary), "--gtest_filter=RunFileExample.*"]
    subprocess.run(
        command, env={**os.environ, "SS_EXAMPLE_RUN_DB": str(path)}, check=True, capture_output=True, timeout=120
    )


@dataclass(frozen=True)
class Column:
    """Shape of a column: ``count`` values in runs of ``length``."""

    count: int
    length: int


def _rotl(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (32 - bits))) & _MASK32


def xxh32(data: bytes) -> int:
    """XXH32 with seed 0."""
    at, size = 0, len(data)
    if size >= 16:
        lanes = [(_P1 + _P2) & _MASK32, _P2, 0, (-_P1) & _MASK32]
        while at + 16 <= size:
            for i, word in enumerate(struct.unpack_from("<4I", data, at)):
                lanes[i] = (_rotl((lanes[i] + word * _P2) & _MASK32, 13) * _P1) & _MASK32
            at += 16
        value = sum(_rotl(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18))) & _MASK32
    else:
        value = _P5
    value = (value + size) & _MASK32
    while at + 4 <= size:
        value = (_rotl((value + struct.unpack_from("<I", data, at)[0] * _P3) & _MASK32, 17) * _P4) & _MASK32
        at += 4
    for byte in data[at:]:
        value = (_rotl((value + byte * _P5) & _MASK32, 11) * _P1) & _MASK32
    value = ((value ^ (value >> 15)) * _P2) & _MASK32
    value = ((value ^ (value >> 13)) * _P3) & _MASK32
    return value ^ (value >> 16)


def _unzstd(data: bytes, size: int) -> bytes:
    library = ctypes.CDLL(ctypes.util.find_library("zstd") or "libzstd.so.1")
    library.ZSTD_decompress.restype = ctypes.c_size_t
    library.ZSTD_decompress.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    out = ctypes.create_string_buffer(size)
    got = library.ZSTD_decompress(out, size, data, len(data))
    if got != size:
        raise ValueError("a plane does not unpack")
    return out.raw


class _Cursor:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def take(self, size: int) -> bytes:
        self.at += size
        return self.data[self.at - size : self.at]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value


def _unzigzag(value: int) -> int:
    return (value >> 1) ^ -(value & 1)


def _wrap(value: int) -> int:
    value &= _MASK64
    return value - (1 << 64) if value >> 63 else value


def decode_column(sealed: bytes, shape: Column) -> list[int]:
    """The values of one block. Raises ValueError when the check word does not fit or the coding is unknown."""
    data, check = sealed[:-4], struct.unpack("<I", sealed[-4:])[0]
    if xxh32(data) != check:
        raise ValueError("check word does not fit")
    cursor = _Cursor(data)
    first = cursor.byte()
    if first & 0xF0 != 0x10:
        raise ValueError("unknown coding")
    predictor, width = first & 0x0F, cursor.byte()
    bases: list[int] = []
    for _ in range(shape.count // shape.length if predictor == 1 else 1):
        bases.append(_wrap(_unzigzag(cursor.varint()) + (bases[-1] if bases else 0)))
    residuals = [0] * shape.count
    for plane in range(width):
        mode = cursor.byte()
        if mode == 0:
            continue
        body = cursor.take(shape.count) if mode == 1 else _unzstd(cursor.take(cursor.varint()), shape.count)
        for i, byte in enumerate(body):
            residuals[i] |= byte << (8 * plane)
    values: list[int] = []
    for i, residual in enumerate(residuals):
        if predictor == 1:
            expected = bases[i // shape.length]
        elif predictor == 2 and i:
            expected = values[i - 1] if i % shape.length else values[i - shape.length]
        elif predictor == 3 and i >= shape.length:
            expected = values[i - shape.length]
        else:
            expected = bases[0]
        values.append(_wrap(expected + _unzigzag(residual)))
    return values


def read_metric(db: sqlite3.Connection, metric: int) -> list[list[int]]:
    """All values of a metric by rank, over the whole file, times in ns. Rows' own columns: one list."""
    kind = db.execute("SELECT kind FROM metric WHERE id = ?", (metric,)).fetchone()[0]
    out: dict[int, list[int]] = {}
    segments = db.execute("SELECT id, rows, ranks, quantum_ns FROM segment ORDER BY attempt, step0").fetchall()
    for segment, rows, ranks, quantum_ns in segments:
        ranks = 1 if kind == "row" else ranks
        unit = quantum_ns if kind == "time" else 1
        part = [[0] * rows for _ in range(ranks)]
        blocks = db.execute(
            "SELECT rank0, ranks, data FROM block WHERE segment = ? AND metric = ? AND fold = 0", (segment, metric)
        )
        for rank0, count, data in blocks:
            values = decode_column(data, Column(max(count, 1) * rows, rows))
            for r in range(max(count, 1)):
                part[rank0 + r] = [value * unit for value in values[r * rows : (r + 1) * rows]]
        for rank in range(ranks):
            out.setdefault(rank, []).extend(part[rank])
    return [out[rank] for rank in sorted(out)]

"""Asks a process where it is, as the agent does, and reads the answer (docs/formats/blackbox.md, Stack)."""

from __future__ import annotations

import ctypes
import os
import struct
import time
from dataclasses import dataclass
from pathlib import Path

_AT, _BYTES = 448, 3584
_QUEUE, _REQUEST = -1, 0x5353
_SYS_RT_TGSIGQUEUEINFO = {"x86_64": 297, "aarch64": 240}[os.uname().machine]
HOLDS_GIL = 2


class _SigInfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int) for name in ("signo", "errno", "code", "pad", "pid", "uid", "value")]
    _fields_ += [("rest", ctypes.c_char * 100)]


@dataclass
class Box:
    signal: int
    answered: int
    thread: int
    flags: int
    frames: list[tuple[int, str, str]]  # line, function, file; innermost first


def read(path: Path) -> Box:
    """The box as it is now."""
    with open(path, "rb") as file:
        file.seek(_AT)
        raw = file.read(_BYTES)
    signal, answered, _time, _pc, thread, flags, _count, size = struct.unpack_from("<IIQQIIII", raw)
    frames: list[tuple[int, str, str]] = []
    for text in raw[64 : 64 + size].decode(errors="replace").splitlines():
        line, function, name = text.split(" ", 2)
        frames.append((int(line), function, frames[-1][2] if name == '"' else name))
    return Box(signal, answered, thread, flags, frames)


def send(signal: int, pid: int, request: int, thread: int = 0) -> None:
    """One question to a thread (the main one) by the signal it listens to. Raises OSError when it cannot be sent."""
    info = _SigInfo(signo=signal, code=_QUEUE, pid=os.getpid(), value=_REQUEST << 16 | request)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(_SYS_RT_TGSIGQUEUEINFO, pid, thread or pid, info.signo, ctypes.byref(info)) != 0:
        raise OSError(ctypes.get_errno(), "rt_tgsigqueueinfo")


def ask(path: Path, pid: int, request: int, timeout: float = 10) -> Box:
    """Sends a question and waits for its answer."""
    send(read(path).signal, pid, request)
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        box = read(path)
        if box.answered == 2 * request + 2:
            return box
        time.sleep(0.002)
    raise AssertionError(f"no answer to request {request}: {read(path)}")

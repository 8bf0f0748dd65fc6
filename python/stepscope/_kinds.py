"""Numbers of the file format (src/blackbox/event_kind.h, layout.h); a test compares them with the headers."""

from __future__ import annotations

# Edge
MARK, BEGIN, END = 0, 1, 2

# Kind
PROCESS, STEP, USER_PHASE, OPTIMIZER, SCALER_STEP, BACKWARD, BACKWARD_OWN, FORWARD, FETCH, LOADER_CREATE = range(1, 11)
COLLECTIVE, COLLECTIVE_DONE, WAIT, GC, SAVE, COMPILE, H2D, USAGE, VALUE, EXCEPTION = range(11, 21)
INIT_GROUP, WORKER_FETCH, SYNC = 21, 22, 23
TEARDOWN, RENDEZVOUS, SCHEDULER, SHAPE, LOADER_END, SCALAR = 30, 32, 34, 35, 39, 40

# ScalarOf
SCALAR_LOSS, SCALAR_GRAD_NORM, SCALAR_LEARNING_RATE = 1, 2, 3

# ProcessEvent
TORCH_IMPORTED, RANK_KNOWN, EXIT = 1, 2, 3

# RendezvousPlace
RENDEZVOUS_DDP = 1

# SaveApi
SAVE_TORCH, SAVE_DISTRIBUTED, SAVE_SAFETENSORS = 1, 2, 3

# CollectiveOp
ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, REDUCE, GATHER, SCATTER, ALL_TO_ALL, BARRIER, SEND, RECV = range(
    1, 12
)
MONITORED_BARRIER = 12

# NameKind
NAME_MODULE, NAME_OPTIMIZER, NAME_LOADER, NAME_GROUP, NAME_PHASE, NAME_VALUE = range(1, 7)
NAME_EXCEPTION, NAME_UNAVAILABLE, NAME_FACT, NAME_MESH, NAME_CALL_SITE, NAME_ADVICE, NAME_TRACEBACK = range(7, 14)

# Evidence
EVIDENCE_INIT, EVIDENCE_GROUP, EVIDENCE_OPTIMIZER, EVIDENCE_BACKWARD = 1, 2, 4, 8

# Life
LIFE_TEARDOWN, LIFE_CLOSED, LIFE_EXCEPTION = 1, 2, 4


def text_id(text: str) -> int:
    """The id of a named phase or value: 64-bit FNV-1a, never 0. The same in every process and in the C interface."""
    h = 0xCBF29CE484222325
    for byte in text.encode("utf-8", "surrogateescape"):
        h = ((h ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return h or 1

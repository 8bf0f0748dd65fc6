"""Ranks on several nodes: the job's own TCPStore tells the other nodes' agents where the aggregator is.

Called once the process group is there, and only where ranks are not all in the shared folder of this node. Everything
happens on a daemon thread with a store client of its own (``clone``), so that neither the training thread nor its
client ever waits. Rank 0 leaves a wish for its agent (which address the ranks use), takes the agent's offer (address
and secret) and puts it into the store; one rank of every other node looks for it and leaves what it found for its
agent. The key is gone after ``TOLD_S``. Other kinds of store are left alone.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import socket
import threading
import time
from datetime import timedelta
from types import ModuleType
from typing import Any

KEY = "stepscope/aggregator"
LOOK_S = 60.0
TOLD_S = 75.0  # those who look began within seconds of each other: the process group needs all of them
OFFER_S = 20.0
_OP_S = 5.0
_MOST_BYTES = 2048
_WISH, _OFFER, _FOUND, _LOCK = ("aggregator." + end for end in ("wish", "offer", "found", "lock"))

_stop = threading.Event()
_thread: threading.Thread | None = None
_registered = False


def elsewhere(world: int) -> bool:
    """Whether the job has ranks that are not in the shared folder of this launch."""
    if world < 2:
        return False
    try:
        return int(os.environ["LOCAL_WORLD_SIZE"]) < world
    except (KeyError, ValueError):  # not torchrun: every rank here has opened its black box before it could join
        return sum(name.endswith(".ring") for name in os.listdir(os.environ["STEPSCOPE_SHM"])) < world


def meet(torch: ModuleType, rank: int) -> None:
    """Starts to tell (rank 0) or to look for the aggregator. Returns at once."""
    global _thread, _stop, _registered
    store = torch.distributed.distributed_c10d._get_default_store()
    base = store
    while hasattr(base, "underlying_store"):
        base = base.underlying_store
    if not isinstance(base, torch.distributed.TCPStore):
        return
    leave()
    _stop = threading.Event()
    work, more = (_tell, (base.host,)) if rank == 0 else (_look, ())
    arguments = (store, os.environ["STEPSCOPE_SHM"], _stop, *more)
    _thread = threading.Thread(target=_quiet, args=(work, *arguments), name="stepscope-nodes", daemon=True)
    if not _registered:
        _registered = True
        atexit.register(leave, 0.2)
    _thread.start()


def leave(wait_s: float = 0.0) -> None:
    """Ends what goes on: no thread of ours may be in the store when the interpreter goes."""
    _stop.set()
    if wait_s and _thread is not None:
        _thread.join(wait_s)


def _quiet(work: Any, *arguments: Any) -> None:
    try:
        work(*arguments)
    except Exception:  # the store is gone, the folder is gone: without us the job is as it was
        pass


def _own_client(store: Any) -> Any:
    if not hasattr(store, "clone"):  # an older torch: the lock of its client is held for one round trip
        return store
    client = store.clone()
    client.set_timeout(timedelta(seconds=_OP_S))
    return client


def _read(folder: str, name: str) -> str:
    try:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            return file.read(_MOST_BYTES)
    except (OSError, ValueError):
        return ""


def _write(folder: str, name: str, text: str) -> None:
    """Readers see all of it or nothing."""
    path = os.path.join(folder, name)
    fresh = f"{path}.{os.getpid()}"
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
        file.write(text)
    os.rename(fresh, path)


def ways(host: str) -> dict[str, str]:
    """Where the agent is to listen so that ranks elsewhere reach it, and the host they are told."""
    family, _, _, _, place = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
    numeric = str(place[0])
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(place)  # sends nothing: the system says which address of ours it would come from
        source = str(probe.getsockname()[0])
    if source != numeric:  # the store is on another machine
        return {"listen": source, "tell": source}
    loopback = numeric == "::1" or numeric.startswith("127.")
    if loopback and host not in ("localhost", "ip6-localhost") and host != numeric:
        # The machine's own name, which it takes for itself; others are told its address by their name server.
        return {"listen": "::" if family == socket.AF_INET6 else "0.0.0.0", "tell": host}
    return {"listen": numeric, "tell": numeric}


def _tell(store: Any, folder: str, stop: threading.Event, host: str) -> None:
    _write(folder, _WISH, json.dumps(ways(host)))
    end_s = time.monotonic() + OFFER_S
    while not (offer := _read(folder, _OFFER)):
        if time.monotonic() > end_s or stop.wait(0.05):
            return
    client = _own_client(store)
    client.set(KEY, offer)
    if not stop.wait(TOLD_S):
        client.delete_key(KEY)


def _look(store: Any, folder: str, stop: threading.Event) -> None:
    lock = os.open(os.path.join(folder, _LOCK), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails where another rank of this node looks already
        begin_s = time.monotonic()
        client = _own_client(store)
        while not client.check([KEY]):
            for_s = time.monotonic() - begin_s
            if for_s > LOOK_S or stop.wait(0.1 if for_s < 2 else 1.0):
                return
        found = client.get(KEY).decode("utf-8", "replace")[:_MOST_BYTES]
        if found != _read(folder, _OFFER):  # else the aggregator is here
            _write(folder, _FOUND, found)
    finally:
        os.close(lock)

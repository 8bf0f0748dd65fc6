"""ns per mark seen from Python, and of the C hooks: medians over blocks, less the cost of an empty loop.

    python bench/mark_cost.py [repeats]

Needs the built package on the path. Makes its own ring in /dev/shm and removes it. Prints one line per call.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import timeit


class Module:
    """Stands for a root module."""

    training = True


def main(repeats: int = 15, number: int = 100_000) -> dict[str, float]:
    from stepscope import _native as native

    folder = tempfile.mkdtemp(prefix="ss-bench-", dir="/dev/shm")
    os.environ["STEPSCOPE_SHM"] = folder
    native.allow_open()
    if not native.open(folder):
        raise SystemExit(f"the black box does not open: {native.reason()}")
    names = {
        "mark": native.mark,
        "pre": native.forward_pre,
        "post": native.forward_post,
        "opre": native.optimizer_pre,
        "opost": native.optimizer_post,
        "usage": native.usage,
        "m": Module(),
        "a": (),
        "d": {},
    }
    calls = {
        "mark(kind, edge)": "mark(9, 1)",
        "mark(kind, edge, a, b)": "mark(9, 1, 12345, 678901234567)",
        "forward pre + post": "pre(m, a); post(m, a, a)",
        "optimizer pre + post": "opre(m, a, d); opost(m, a, d)",
        "usage()": "usage()",
    }
    try:
        empty = min(timeit.repeat("pass", number=number, repeat=repeats))
        result = {}
        for name, statement in calls.items():
            times = timeit.repeat(statement, globals=names, number=number, repeat=repeats)
            ns = [(t - empty) / number * 1e9 for t in times]
            result[name] = statistics.median(ns)
            print(f"{name:26} median {statistics.median(ns):7.1f} ns   best {min(ns):7.1f} ns")
        return result
    finally:
        native.close()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:2]))

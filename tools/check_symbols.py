#!/usr/bin/env python3
"""Checks what the recorder's objects call, since they run inside the training process.

Every object of the archive: no stream I/O, no std::regex, no locale. The objects of the hot path in addition: no
allocation, no exception, no lock, no output. Reads the undefined symbols that `nm` lists; exit code 0 = clean,
1 = violations (one line each on stdout), 2 = cannot check.

    tools/check_symbols.py build/wheel/src/recorder/libss_recorder.a
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator

HOT_OBJECTS = ("marks.cc.o", "gpu_mark.cc.o", "nccl_callbacks.cc.o")

EVERYWHERE = (
    (r"std::(basic_)?[io]*stream|std::basic_(o|i|io|f|of|if|string)stream|std::basic_(o|i)?stringstream", "stream I/O"),
    (r"std::ios_base|std::c(out|err|in|log)\b|std::basic_(file|stream|string)buf", "stream I/O"),
    (r"std::(__cxx11::)?(basic_)?regex|std::__detail::_(NFA|Scanner|Compiler|Executor)", "std::regex"),
    (r"std::locale", "locale"),
)
HOT_ONLY = (
    (r"^operator (new|delete)|^(malloc|calloc|realloc|free|aligned_alloc|posix_memalign|strdup)$", "allocation"),
    (r"^__cxa_(throw|rethrow|allocate_exception|bad_cast)|^std::__throw_|^_Unwind_Resume", "exception"),
    (
        r"^pthread_(mutex|rwlock|cond|once|spin)|^__cxa_guard_|std::(mutex|condition_variable)|^sem_|^std::__atomic_wait",
        "lock",
    ),
    (r"^(f?printf|v?f?printf|s?n?printf|puts|fputs|fwrite|write|perror|syslog)$|^__(f|s|sn|v)?printf_chk", "output"),
    (r"^std::(__cxx11::)?basic_string<", "std::string"),
)


def undefined_symbols(archive: str, nm: str) -> Iterator[tuple[str, str]]:
    """Yields (object, demangled symbol). Raises RuntimeError with nm's own words when it fails."""
    command = [nm, "--undefined-only", "--demangle", "--print-file-name", archive]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or f"{nm} failed on {archive}")
    for line in done.stdout.splitlines():
        match = re.match(r"^(?:.*:)?(?P<object>[^:/]+\.o):\s+[UwvV]\s+(?P<symbol>.*)$", line)
        if match:
            yield match["object"], match["symbol"]


def objects_of(archive: str, ar: str) -> set[str]:
    """Names of the archive's members."""
    done = subprocess.run([ar, "t", archive], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or f"{ar} failed on {archive}")
    return set(done.stdout.split())


def violations(archive: str, hot: tuple[str, ...], nm: str, ar: str) -> list[str]:
    """One line per forbidden symbol."""
    missing = set(hot) - objects_of(archive, ar)
    if missing:
        raise RuntimeError(f"{archive} has no {', '.join(sorted(missing))}: nothing to check")
    found = []
    for member, symbol in undefined_symbols(archive, nm):
        rules = EVERYWHERE + (HOT_ONLY if member in hot else ())
        for pattern, what in rules:
            if re.search(pattern, symbol):
                found.append(f"{member}: {what}: {symbol}")
                break
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archives", nargs="+", help="static library of the recorder")
    parser.add_argument(
        "--hot",
        action="append",
        metavar="OBJECT",
        help=f"object that is on the hot path; may be repeated (default: {', '.join(HOT_OBJECTS)})",
    )
    parser.add_argument("--nm", default="nm")
    parser.add_argument("--ar", default="ar")
    arguments = parser.parse_args()
    hot = tuple(arguments.hot or HOT_OBJECTS)
    bad = 0
    for archive in arguments.archives:
        try:
            lines = violations(archive, hot, arguments.nm, arguments.ar)
        except (RuntimeError, OSError) as error:
            print(f"check_symbols: {error}", file=sys.stderr)
            return 2
        for line in lines:
            print(f"{archive}: {line}")
        bad += len(lines)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

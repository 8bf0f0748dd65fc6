"""tools/check_symbols.py finds what must not be in the recorder, and nothing else."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parent.parent / "tools" / "check_symbols.py"
pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="no g++")

CLEAN = """
#include <atomic>
#include <ctime>
std::atomic<unsigned long> head;
void mark() noexcept { timespec t; clock_gettime(CLOCK_MONOTONIC, &t); head.fetch_add(t.tv_nsec); }
"""
ALLOCATES = "struct S { char c[99]; }; S* mark() { return new S; }"
THROWS = "void mark(int i) { if (i) throw i; }"
LOCKS = "#include <mutex>\nstd::mutex m; void mark() { std::lock_guard lock(m); }"
PRINTS = '#include <cstdio>\nvoid mark(int i) { printf("%d %d", i, i); }'
STREAMS = "#include <iostream>\nvoid mark(int i) { std::cerr << i; }"
GROWS = "#include <vector>\nvoid mark(std::vector<int>& v) { v.push_back(1); }"


def archive(folder: Path, **objects: str) -> Path:
    """Builds a static library of <name>.cc.o objects."""
    members = []
    for name, source in objects.items():
        (folder / f"{name}.cc").write_text(source)
        members.append(folder / f"{name}.cc.o")
        subprocess.run(["g++", "-std=c++20", "-O1", "-c", folder / f"{name}.cc", "-o", members[-1]], check=True)
    library = folder / "lib.a"
    subprocess.run(["ar", "rcs", library, *members], check=True)
    return library


def check(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(TOOL), *map(str, arguments)], capture_output=True, text=True, check=False
    )


def test_clean_hot_path_passes(tmp_path: Path) -> None:
    done = check(archive(tmp_path, marks=CLEAN, open=ALLOCATES, close=THROWS, note=PRINTS), "--hot", "marks.cc.o")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("source", "what"),
    [
        (ALLOCATES, "allocation"),
        (THROWS, "exception"),
        (LOCKS, "lock"),
        (PRINTS, "output"),
        (STREAMS, "stream I/O"),
        (GROWS, "allocation"),
    ],
)
def test_hot_path_violation_is_named(tmp_path: Path, source: str, what: str) -> None:
    done = check(archive(tmp_path, marks=source), "--hot", "marks.cc.o")
    assert done.returncode == 1
    assert f"marks.cc.o: {what}: " in done.stdout


def test_streams_are_refused_everywhere(tmp_path: Path) -> None:
    done = check(archive(tmp_path, marks=CLEAN, open=STREAMS), "--hot", "marks.cc.o")
    assert done.returncode == 1
    assert "open.cc.o: stream I/O: " in done.stdout


def test_a_missing_hot_object_is_no_pass(tmp_path: Path) -> None:
    library = archive(tmp_path, other=CLEAN)
    assert check(library).returncode == 2
    assert check(library, "--hot", "other.cc.o").returncode == 0
    assert check(tmp_path / "missing.a").returncode == 2

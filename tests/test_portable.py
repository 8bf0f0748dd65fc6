"""What is installed runs on every system the wheel's tag promises (manylinux_2_34): it asks for no newer glibc."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import package
from jobs import binary

PROMISED = (2, 34)
BUILT_FOR = (2, 36)  # Debian 12: a newer system's linker may bind to newer versions of the same functions

pytestmark = [
    pytest.mark.skipif(not shutil.which("objdump"), reason="no objdump"),
    pytest.mark.skipif(
        tuple(map(int, platform.libc_ver()[1].split("."))) > BUILT_FOR, reason="built on a system newer than Debian 12"
    ),
]


def newer_than(promised: tuple[int, int], table: str) -> list[str]:
    """Symbols of `objdump -T` that need a glibc after `promised`."""
    found = re.findall(r"\(?GLIBC_(\d+)\.(\d+)[.\d]*\)?\s+(\S+)$", table, re.MULTILINE)
    return [f"{name} (GLIBC_{major}.{minor})" for major, minor, name in found if (int(major), int(minor)) > promised]


def test_a_newer_symbol_is_seen():
    table = "0000 DF *UND* 0000 (GLIBC_2.35) hypot\n0000 DF *UND* 0000 (GLIBC_2.34) dlopen\n"
    assert newer_than(PROMISED, table) == ["hypot (GLIBC_2.35)"]


@pytest.mark.parametrize("what", ["_native.abi3.so", "_run_tables.abi3.so", "command"])
def test_no_newer_glibc_is_asked_for(what):
    file = Path(binary()) if what == "command" else package.package_folder() / what
    done = subprocess.run(["objdump", "-T", str(file)], capture_output=True, text=True, check=True)
    assert "GLIBC_" in done.stdout
    assert newer_than(PROMISED, done.stdout) == []


def test_sqlite_and_zstd_of_the_tables_are_theirs_alone():
    """A program that has other versions loaded meets none of ours."""
    file = package.package_folder() / "_run_tables.abi3.so"
    done = subprocess.run(["objdump", "-T", str(file)], capture_output=True, text=True, check=True)
    given = {
        line.split()[-1] for line in done.stdout.splitlines() if re.match("[0-9a-f]+ ", line) and "*UND*" not in line
    }
    assert "PyInit__run_tables" in given
    assert [name for name in given if re.match("sqlite3|ZSTD|XXH|.*stepscope", name)] == []

"""tools/setup.sh asks for the right packages and says clearly what it cannot do. Nothing is really installed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def script(path: Path, body: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + body)
    path.chmod(0o755)


class Machine:
    """Stand-ins for the system's tools, first on PATH."""

    def __init__(self, folder: Path) -> None:
        self.bin, self.log = folder / "bin", folder / "log"
        self.log.write_text("")
        self.venv = folder / "venv"
        script(
            self.bin / "dpkg-query",
            'for p; do :; done\ncase " $INSTALLED " in *" $p "*) echo "install ok installed";; *) exit 1;; esac\n',
        )
        script(self.bin / "apt-get", f'echo "apt-get $*" >>{self.log}\nexit ${{APT_CODE:-0}}\n')
        script(self.bin / "id", 'echo "$FAKE_UID"\n')
        script(self.bin / "sudo", "exit 1\n")
        script(self.bin / "python3", "exit 0\n")
        script(self.venv / "bin/python", f'case "$*" in *pip*) echo "pip $*" >>{self.log};; esac\nexit 0\n')

    def run(self, *arguments: str, uid: str = "0", **extra: str) -> subprocess.CompletedProcess[str]:
        env = {
            "PATH": f"{self.bin}:/usr/bin:/bin",
            "FAKE_UID": uid,
            "STEPSCOPE_VENV": str(self.venv),
            "HOME": os.environ.get("HOME", "/"),
            **extra,
        }
        return subprocess.run(
            [str(ROOT / "tools/setup.sh"), *arguments], env=env, capture_output=True, text=True, timeout=60
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_root_installs_what_is_missing_and_only_that(machine: Machine) -> None:
    done = machine.run(INSTALLED="cmake ccache libgtest-dev")
    assert done.returncode == 0, done.stderr
    line = next(x for x in machine.log.read_text().splitlines() if " install " in x)
    words = line.split()
    assert {
        "ninja-build",
        "nlohmann-json3-dev",
        "libcli11-dev",
        "libfmt-dev",
        "libtomlplusplus-dev",
        "libsqlite3-dev",
        "libzstd-dev",
        "librapidcheck-dev",
    } <= set(words)
    assert not {"cmake", "ccache", "libgtest-dev", "clang-22"} & set(words)


def test_fuzzing_asks_for_clang(machine: Machine) -> None:
    assert machine.run("--fuzz", INSTALLED="cmake").returncode == 0
    assert "clang-22" in machine.log.read_text()


def test_without_rights_the_command_to_run_is_named(machine: Machine) -> None:
    done = machine.run(uid="1000", INSTALLED="cmake")
    assert done.returncode == 1
    assert "Run as root: apt-get install" in done.stderr and "ninja-build" in done.stderr
    assert machine.log.read_text() == ""


def test_a_failing_apt_is_tried_again_after_an_update_and_then_reported(machine: Machine) -> None:
    done = machine.run(INSTALLED="cmake", APT_CODE="100")
    assert done.returncode == 1
    assert "could not install" in done.stderr
    assert "apt-get update" in machine.log.read_text()


def test_a_named_environment_without_python_is_refused(machine: Machine, tmp_path: Path) -> None:
    (machine.venv / "bin/python").unlink()
    done = machine.run(INSTALLED="")
    assert done.returncode == 1 and "has no bin/python" in done.stderr

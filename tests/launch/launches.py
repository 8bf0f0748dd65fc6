"""Shared pieces of the launch tests: the binary under test and a way to start it on a small script."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import textwrap
import time

from jobs import ROOT, Mark, binary, environment, start

HERE = pathlib.Path(__file__).resolve().parent


class Launch:
    """Starts the binary in a folder of its own; keeps nothing alive behind a test."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.mark = Mark()
        self.started: list[subprocess.Popen] = []

    def script(self, text: str, name: str = "train.py") -> str:
        """Writes a fake training; `fake_rank` and `sys`, `os`, `time` are at hand in it."""
        head = f"import os, sys, time\nsys.path.insert(0, {str(HERE)!r})\nfrom fake_rank import FakeRank\n"
        (self.folder / name).write_text(head + textwrap.dedent(text))
        return name

    def environment(self, **extra: str) -> dict[str, str]:
        return environment(**{"STEPSCOPE_PYTHON_DIR": str(ROOT / "python"), **extra})

    def spawn(self, command: list[str], env: dict[str, str], **popen) -> subprocess.Popen:
        """Starts a command in the folder, in its own process group; ``popen`` as for jobs.start."""
        self.started.append(start(command, env, self.mark, **{"cwd": self.folder, **popen}))
        return self.started[-1]

    def start(self, *words: str, **kwargs) -> subprocess.Popen:
        """Starts `stepscope <words>`, after the words of ``prefix``, with ``env`` on top of what is usual."""
        env, prefix = self.environment(**kwargs.pop("env", {})), kwargs.pop("prefix", [])
        return self.spawn([*prefix, binary(), *words], env, **kwargs)

    def run(self, *words: str, timeout: float = 60, **kwargs) -> subprocess.CompletedProcess:
        """Starts it and waits."""
        data = kwargs.pop("input", None)
        if data is not None:
            kwargs["stdin"] = subprocess.PIPE
        process = self.start(*words, **kwargs)
        out, err = process.communicate(data, timeout=timeout)
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def run_dir(self, name: str = "r", logs: str = "logs") -> pathlib.Path:
        return self.folder / logs / name

    def summary(self, name: str = "r", logs: str = "logs") -> dict:
        return json.loads((self.run_dir(name, logs) / "final_summary.json").read_text())

    def agents(self, launcher_pid: int) -> list[int]:
        """Agent processes whose parent is the launcher."""
        return [pid for pid in children(launcher_pid) if command_of(pid)[1:2] == ["agent"]]

    def close(self) -> None:
        self.mark.bury()  # and with it what outlived its launcher
        for process in self.started:
            process.kill()  # one that cleared its environment
            process.wait()
            for pipe in (process.stdout, process.stderr, process.stdin):
                if pipe:
                    pipe.close()


def refused(launch: Launch, *words: str) -> str:
    """Runs it on input that is refused: exit code 2, nothing on stdout, one line on stderr. Returns that line."""
    done = launch.run(*words)
    assert (done.returncode, done.stdout) == (2, b"") and done.stderr.count(b"\n") == 1, done.stderr
    return done.stderr.decode()


def children(pid: int) -> list[int]:
    """Direct children of a process."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                if int(file.read().rpartition(")")[2].split()[1]) == pid:
                    found.append(int(entry))
        except (OSError, IndexError):
            continue
    return found


def command_of(pid: int) -> list[str]:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().decode(errors="replace").split("\0")[:-1]
    except OSError:
        return []


def name_of(pid: int) -> str:
    """The kernel's name of a process, "" when it is gone."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""


def wait_for(condition, timeout: float = 20, what: str = "condition"):
    """Polls until `condition()` is true and returns its value."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"{what} did not come true within {timeout} s")


def findings(summary: dict, kind: str) -> list[dict]:
    return [f for f in summary["findings"] if f["kind"] == kind]

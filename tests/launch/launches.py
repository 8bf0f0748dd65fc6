"""Shared pieces of the launch tests: the binary under test and a way to start it on a small script."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time
import uuid

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job; what we start would ignore it, too
    signal.signal(signal.SIGINT, signal.default_int_handler)


def binary() -> str:
    """STEPSCOPE_BIN, else the checkout's own."""
    path = os.environ.get("STEPSCOPE_BIN", str(ROOT / ".venv/bin/stepscope"))
    assert os.access(path, os.X_OK), f"no stepscope at {path}: build first, or set STEPSCOPE_BIN"
    return path


class Launch:
    """Starts the binary in a folder of its own; keeps nothing alive behind a test."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.mark = f"LAUNCH_TEST={uuid.uuid4().hex}"  # in the environment of all that comes of it
        self.started: list[subprocess.Popen] = []

    def script(self, text: str, name: str = "train.py") -> str:
        """Writes a fake training; `fake_rank` and `sys`, `os`, `time` are at hand in it."""
        head = f"import os, sys, time\nsys.path.insert(0, {str(HERE)!r})\nfrom fake_rank import FakeRank\n"
        (self.folder / name).write_text(head + textwrap.dedent(text))
        return name

    def environment(self, **extra: str) -> dict[str, str]:
        env = {k: v for k, v in os.environ.items() if not k.startswith("STEPSCOPE_")}
        env["PATH"] = os.path.dirname(sys.executable) + ":" + env["PATH"]
        env.setdefault("STEPSCOPE_PYTHON_DIR", str(ROOT / "python"))
        env.update([self.mark.split("=")])
        env.update(extra)
        return env

    def start(self, *words: str, **kwargs) -> subprocess.Popen:
        """Starts `stepscope <words>` in its own process group, stdout and stderr on pipes."""
        kwargs.setdefault("stdout", subprocess.PIPE)
        kwargs.setdefault("stderr", subprocess.PIPE)
        kwargs.setdefault("stdin", subprocess.DEVNULL)
        env = self.environment(**kwargs.pop("env", {}))
        prefix = kwargs.pop("prefix", [])
        process = subprocess.Popen(
            [*prefix, binary(), *words], cwd=kwargs.pop("cwd", self.folder), env=env, start_new_session=True, **kwargs
        )
        self.started.append(process)
        return process

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
        for process in self.started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            for pipe in (process.stdout, process.stderr, process.stdin):
                if pipe:
                    pipe.close()
        for pid in self.left_behind():  # what outlived its launcher
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def left_behind(self) -> list[int]:
        """Processes that came of this launch and still run."""
        found = []
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if self.mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
        return found


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

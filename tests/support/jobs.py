"""Where jobs of tests begin and end: every test and driver that starts a training, or a program that starts others, uses this.

pytest has this folder on its path (tests/pytest.ini). A script that also runs alone begins with this line, and no other:

    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

Contract:
  place        STEPSCOPE_BIN and STEPSCOPE_PYTHON name the command and the interpreter under test (make sets both); else this
               interpreter and the command beside it.
  environment  nothing of a run or launcher around us, unless a test asks for it.
  group        each command leads a session and process group of its own: a signal to it never reaches us.
  mark         all that comes of a command carries its mark in the environment, so that only those are ever killed, however
               they detached themselves. Jobs inside a job carry both marks.
  output       stdout and stderr are read by a thread each, bytes kept as they came and every line with its arrival.
  end          finish() never waits longer than its timeout and 5 s; bury() leaves nothing of the job alive.

Times are seconds of time.monotonic(). Nothing here looks inside the product: a job is a command line, its output, its exit
code and the run's folder.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[2]
MARK = "TEST_JOB"
# Beginnings of names that no job inherits.
OUTER = ("STEPSCOPE", "TRACEML_", "TORCHELASTIC", "RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_", "FAULT_TOOL")
# Where a line of a job's own begins: torchrun's ranks write text and newline apart, so that two of them may share a line.
OWN_LINE = re.compile(r"(?=LAB t=|TRUTH rank=|CHAOS rank=|BENCH )")
GONE_S = 5.0  # patience with a killed process that the kernel has not taken away yet
DRAIN_S = 5.0  # patience with an orphan that holds a pipe of an ended command open
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job; what we start would ignore it, too
    signal.signal(signal.SIGINT, signal.default_int_handler)


def python() -> str:
    """The interpreter under test."""
    return os.environ.get("STEPSCOPE_PYTHON", sys.executable)


def _binary() -> str:
    return os.environ.get("STEPSCOPE_BIN", os.path.join(os.path.dirname(python()), "stepscope"))


def binary() -> str:
    """The `stepscope` under test; AssertionError where there is none."""
    assert os.access(_binary(), os.X_OK), f"no stepscope at {_binary()}: run make build, or set STEPSCOPE_BIN"
    return _binary()


def torchrun(ranks: int, *words: Path | str) -> list[str]:
    """A script and its arguments on `ranks` processes; 0 = plain python."""
    launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"] if ranks else []
    return [python(), *launch, *map(str, words)]


def observed(logs: Path, name: str, *words: Path | str) -> list[str]:
    """`words`, options first, under `stepscope run`."""
    return [binary(), "run", "--run-name", name, "--logs-dir", str(logs), *map(str, words)]


def environment(*without: str, **extra: str) -> dict[str, str]:
    """Ours but for OUTER and what begins with one of `without`, what is under test first on PATH; then `extra`."""
    env = {k: v for k, v in os.environ.items() if not k.startswith((*OUTER, *without))}
    folders = dict.fromkeys(os.path.dirname(program) for program in (_binary(), python()))
    env["PATH"] = os.pathsep.join([*folders, env["PATH"]])
    return env | extra


def free_port() -> str:
    """A port of 127.0.0.1 that nobody had a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def summary(folder: Path) -> dict[str, Any] | None:
    """What a run wrote into its folder, None = nothing that can be read."""
    try:
        return json.loads((folder / "final_summary.json").read_text())
    except (OSError, ValueError):
        return None


def said(out: str) -> dict[str, Any]:
    """Everything that a job printed as ``JSON {...}`` lines, merged; ranks' own facts under "rank<k>"."""
    merged: dict[str, Any] = {}
    for line in out.splitlines():
        _, found, text = line.partition("JSON ")
        if found:
            merged.update(json.loads(text))
    return merged


def agent_pid(pids: Iterable[int]) -> int | None:
    """The observing agent among these processes."""
    for pid in pids:
        try:
            argv = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if len(argv) > 1 and argv[1] == b"agent" and argv[0].endswith(b"stepscope"):
            return pid
    return None


class Mark:
    """Tells what came of the commands started with it, orphans included."""

    def __init__(self) -> None:
        self.id = uuid.uuid4().hex

    def on(self, env: Mapping[str, str]) -> dict[str, str]:
        return {**env, MARK: f"{os.environ.get(MARK, '')}/{self.id}"}

    def alive(self) -> list[int]:
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                variables = (folder / "environ").read_bytes().split(b"\0")
                if any(v.startswith(f"{MARK}=".encode()) and self.id.encode() in v for v in variables):
                    found.append(int(folder.name))
        return found

    def bury(self) -> list[int]:
        """Kills what is alive and waits until it is gone. Returns the pids that had to be killed."""
        killed: list[int] = []
        end = time.monotonic() + GONE_S
        while (left := self.alive()) and time.monotonic() < end:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            killed += [pid for pid in left if pid not in killed]
            time.sleep(0.005)
        return killed


def start(command: Sequence[Path | str], env: Mapping[str, str], mark: Mark, **popen: Any) -> subprocess.Popen:
    """A command in a group of its own. ``popen``: what is not as usual (no input, both outputs on pipes, bytes)."""
    popen = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | popen
    return subprocess.Popen([str(word) for word in command], env=mark.on(env), start_new_session=True, **popen)


@dataclass
class Outcome:
    """One finished job. ``rc``: as a shell tells it (128+n for a signal). ``folder`` and ``summary``: of observed ones."""

    rc: int
    stdout: str
    stderr: str
    started: float
    ended: float
    timed_out: bool
    line_times: list[tuple[float, str]] = field(default_factory=list)  # each line of stdout with its arrival
    folder: Path | None = None
    summary: dict[str, Any] | None = None

    @property
    def seconds(self) -> float:
        return self.ended - self.started

    @property
    def said(self) -> dict[str, Any]:
        return said(self.stdout)

    @property
    def findings(self) -> list[dict[str, Any]]:
        return self.summary["findings"] if self.summary else []

    def loud(self) -> list[dict[str, Any]]:
        """Findings of severity warn or crit."""
        return [f for f in self.findings if f["severity"] in ("warn", "crit")]

    def lines(self, prefix: str) -> list[str]:
        return [line for _, line in self.line_times if line.startswith(prefix)]

    def check(self):
        """Itself; AssertionError with what it printed where it did not end with 0."""
        assert self.rc == 0, f"exit {self.rc}\n{self.stdout[-3000:]}\n{self.stderr[-6000:]}"
        return self


class _Reader(threading.Thread):
    def __init__(self, pipe: IO[bytes], on_line: Callable[[str], None] | None) -> None:
        super().__init__(daemon=True)
        self.pipe, self.on_line = pipe, on_line
        self.raw: list[bytes] = []
        self.lines: list[tuple[float, str]] = []
        self.start()

    def run(self) -> None:
        with self.pipe:
            for raw in self.pipe:
                self.raw.append(raw)
                text = raw.decode("utf-8", "replace").rstrip("\n")
                for line in [part for part in OWN_LINE.split(text) if part] or [text]:
                    self.lines.append((time.monotonic(), line))
                    if self.on_line:
                        self.on_line(line)

    def text(self) -> str:
        return b"".join(self.raw).decode("utf-8", "replace")


class Job:
    """A running command. ``on_line`` is called in the reader's thread for each line of stdout."""

    def __init__(
        self,
        command: Sequence[Path | str],
        env: Mapping[str, str] | None = None,
        *,
        cwd: Path | None = None,
        on_line: Callable[[str], None] | None = None,
    ) -> None:
        self.mark = Mark()
        self.started = time.monotonic()
        self.process = start(command, environment() if env is None else env, self.mark, cwd=cwd)
        self._out, self._err = _Reader(self.process.stdout, on_line), _Reader(self.process.stderr, None)

    def lines(self) -> list[tuple[float, str]]:
        """Lines of stdout so far, each with its arrival."""
        return list(self._out.lines)

    def complaints(self) -> list[tuple[float, str]]:
        """Lines of stderr so far, each with its arrival."""
        return list(self._err.lines)

    def wait_for(self, text: str, timeout_s: float) -> bool:
        """Until a line of either output with `text` came. False: the time is over or the job ended."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            over = self.process.poll() is not None and not self._out.is_alive() and not self._err.is_alive()
            if any(text in line for _, line in self.lines() + self.complaints()):
                return True
            if over:
                return False
            time.sleep(0.01)
        return False

    def signal_group(self, number: int) -> None:
        os.killpg(self.process.pid, number)

    def bury(self) -> list[int]:
        """Kills what is left of the job. Returns the pids that had to be killed outside the group."""
        if self.process.poll() is None:  # who cleared its environment is in the group
            self.signal_group(signal.SIGKILL)
            self.process.wait()
        return self.mark.bury()

    def finish(self, timeout_s: float) -> Outcome:
        """Waits for the command, not for what it left behind; after `timeout_s` all of it is killed, and stderr says so."""
        timed_out = False
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            timed_out = True
            self.bury()
        except BaseException:
            self.bury()
            raise
        ended = time.monotonic()
        for reader in (self._out, self._err):
            reader.join(max(0.0, ended + DRAIN_S - time.monotonic()))
        rc = self.process.returncode
        late = f"\nTIMEOUT after {timeout_s:g} s\n" if timed_out else ""
        return Outcome(
            rc if rc >= 0 else 128 - rc,
            self._out.text(),
            self._err.text() + late,
            self.started,
            ended,
            timed_out,
            self.lines(),
        )


def run(
    command: Sequence[Path | str],
    env: Mapping[str, str] | None = None,
    *,
    timeout_s: float,
    cwd: Path | None = None,
) -> Outcome:
    """A whole job, of which nothing stays."""
    job = Job(command, env, cwd=cwd)
    try:
        return job.finish(timeout_s)
    finally:
        job.bury()

"""Starts one job, observed or bare, and collects everything that a judge may want to know. Used by faults/, truth/, chaos/.

Nothing here looks inside the product: a job is a command line, its output, its exit code and the run's folder.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STEPSCOPE = Path(os.environ.get("STEPSCOPE_BINARY", ROOT / ".venv/bin/stepscope"))
PYTHON = Path(os.environ.get("STEPSCOPE_PYTHON", ROOT / ".venv/bin/python"))
MARKER = "DRIVER_JOB_ID"  # in the environment of every process that we start, so that only those are ever killed


@dataclass
class Outcome:
    """One finished job. ``rc``: as a shell tells it (128+n for a signal). Times are ``time.monotonic()`` seconds."""

    rc: int
    stdout: str
    stderr: str
    started: float
    ended: float
    timed_out: bool
    folder: Path | None = None
    summary: dict | None = None
    line_times: list[tuple[float, str]] = field(default_factory=list)  # each line of stdout with its arrival

    @property
    def findings(self) -> list[dict]:
        return self.summary["findings"] if self.summary else []

    def loud(self) -> list[dict]:
        """Findings of severity warn or crit."""
        return [f for f in self.findings if f["severity"] in ("warn", "crit")]

    def lines(self, prefix: str) -> list[str]:
        return [line for line in self.stdout.splitlines() if line.startswith(prefix)]

    def when(self, text: str) -> float | None:
        """Arrival of the first line that contains `text`."""
        return next((t for t, line in self.line_times if text in line), None)


def descendants(job_id: str) -> list[int]:
    """Processes that carry our marker in their environment: started by this job, orphans included."""
    needle = f"{MARKER}={job_id}".encode()
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as f:
                if needle in f.read().split(b"\0"):
                    found.append(int(entry))
        except OSError:
            continue
    return found


def bury(job_id: str) -> list[int]:
    """Kills what is left of a job. Returns the pids that had to be killed."""
    left = descendants(job_id)
    for pid in left:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    return left


def bare_command(script: Path | str, args: list[str], nproc: int) -> list[str]:
    return [str(PYTHON), "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={nproc}", str(script), *args]


def observed_command(
    script: Path | str, args: list[str], nproc: int, logs: Path, name: str, options: list[str] | None = None
) -> list[str]:
    return [
        str(STEPSCOPE),
        "run",
        "--nproc-per-node",
        str(nproc),
        "--run-name",
        name,
        "--logs-dir",
        str(logs),
        *(options or []),
        str(script),
        *args,
    ]


def read_summary(logs: Path, name: str) -> tuple[Path | None, dict | None]:
    folder = logs / name
    if not folder.is_dir():
        return None, None
    try:
        return folder, json.loads((folder / "final_summary.json").read_text())
    except (OSError, ValueError):
        return folder, None


def unglued(line: str) -> list[str]:
    """torchrun makes ranks unbuffered, so that print() writes text and newline apart and two ranks may share a line."""
    return [part for part in re.split(r"(?=LAB t=|TRUTH rank=|CHAOS rank=|BENCH )", line) if part] or [line]


class Job:
    """A running job. `on_line` is called in the reader's thread for each line of stdout."""

    def __init__(
        self,
        command: list[str],
        env: dict[str, str] | None = None,
        on_line: Callable[[str], None] | None = None,
        cwd: Path | str | None = None,
    ) -> None:
        self.id = uuid.uuid4().hex
        full = {
            k: v
            for k, v in os.environ.items()
            if not k.startswith("STEPSCOPE_") and k not in ("FAULT_TOOL", "RANK", "WORLD_SIZE")
        }
        full.update({MARKER: self.id, "OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"})
        full.update(env or {})
        self._lines: list[tuple[float, str]] = []
        self._on_line = on_line
        self._stderr = tempfile.TemporaryFile()
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            command,
            env=full,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        for raw in self.process.stdout:
            for line in unglued(raw.decode("utf-8", "replace").rstrip("\n")):
                self._lines.append((time.monotonic(), line))
                if self._on_line:
                    self._on_line(line)

    def signal_group(self, number: int) -> None:
        os.killpg(self.process.pid, number)

    def lines(self) -> list[tuple[float, str]]:
        return list(self._lines)

    def wait_for(self, text: str, timeout_s: float) -> bool:
        """Until a line with `text` came. False: the time is over or the job ended."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            if any(text in line for _, line in self.lines()):
                return True
            if self.process.poll() is not None and not self._reader.is_alive():
                return False
            time.sleep(0.01)
        return False

    def finish(self, timeout_s: float) -> Outcome:
        timed_out = False
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            timed_out = True
            bury(self.id)
            self.process.wait()
        ended = time.monotonic()
        self._reader.join(5)  # an orphan may hold the pipe open
        self._stderr.seek(0)
        stderr = self._stderr.read().decode("utf-8", "replace")
        self._stderr.close()
        rc = self.process.returncode
        lines = self.lines()
        return Outcome(
            rc if rc >= 0 else 128 - rc,
            "".join(f"{line}\n" for _, line in lines),
            stderr,
            self.started,
            ended,
            timed_out,
            line_times=lines,
        )


def observe(
    script: Path | str,
    args: list[str],
    nproc: int,
    *,
    logs: Path,
    name: str,
    env: dict[str, str] | None = None,
    options: list[str] | None = None,
    timeout_s: float = 300,
    signal_after: tuple[int, float] | None = None,
) -> Outcome:
    """Runs a script through `stepscope run`. `signal_after`: (number, seconds) sent to the launcher's process group."""
    base, count = name, 1
    while (logs / name).exists():  # the launcher would add a suffix of its own; never judge an older run
        count += 1
        name = f"{base}.{count}"
    job = Job(observed_command(script, args, nproc, logs, name, options), env)
    outcome = _finish(job, timeout_s, signal_after)
    outcome.folder, outcome.summary = read_summary(logs, name)
    return outcome


def bare(
    script: Path | str,
    args: list[str],
    nproc: int,
    *,
    env: dict[str, str] | None = None,
    timeout_s: float = 300,
    signal_after: tuple[int, float] | None = None,
) -> Outcome:
    """The same job without stepscope."""
    return _finish(Job(bare_command(script, args, nproc), env), timeout_s, signal_after)


def _finish(job: Job, timeout_s: float, signal_after: tuple[int, float] | None) -> Outcome:
    if signal_after:
        number, seconds = signal_after
        job.wait_for("LAB t=", timeout_s)  # counted from the script's own start: a busy machine imports torch slowly
        try:
            job.process.wait(seconds)
        except subprocess.TimeoutExpired:
            job.signal_group(number)
    outcome = job.finish(timeout_s)
    bury(job.id)
    return outcome


def brief(finding: dict) -> str:
    """A finding in one short line."""
    steps, cost = finding.get("steps") or {}, (finding.get("cost") or {}).get("share")
    ranks = ",".join(map(str, finding["ranks"])) or "job"
    parts = [finding["kind"], finding["severity"], f"ranks {ranks}"]
    parts += [str(finding[k]) for k in ("phase", "cause") if finding.get(k)]
    parts.append(f"first {steps.get('first')} detected {steps.get('detected')}")
    if cost is not None:
        parts.append(f"cost {cost:.3f}")
    return " ".join(parts)


def table(rows: list[list[str]], header: list[str]) -> str:
    """Columns padded to their widest cell; the last column is left as it is."""
    widths = [max(len(str(r[i])) for r in [header, *rows]) for i in range(len(header))]
    return "\n".join("  ".join(str(c).ljust(w) for c, w in zip(r, widths)).rstrip() for r in [header, *rows])


def key_values(line: str) -> dict[str, str]:
    """`a=1 b=x` → {"a": "1", "b": "x"}."""
    return dict(re.findall(r"(\w+)=(\S+)", line))


def require_binary() -> None:
    if not STEPSCOPE.exists():
        sys.exit(f"{STEPSCOPE} does not exist: run `make build` first")

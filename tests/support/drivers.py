"""What the drivers of real torchrun jobs share (faults/, truth/, chaos/, bench/): a job observed or bare, and words for results."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from jobs import Job, Outcome, environment, observed, summary, torchrun


def quiet(**extra: str) -> dict[str, str]:
    """The environment of these jobs."""
    return environment(OMP_NUM_THREADS="1", TORCH_CPP_LOG_LEVEL="ERROR", **extra)


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
    command = observed(logs, name, "--nproc-per-node", str(nproc), *(options or []), script, *args)
    outcome = finish(Job(command, quiet(**(env or {}))), timeout_s, signal_after)
    return read(outcome, logs / name)


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
    return finish(Job(torchrun(nproc, script, *args), quiet(**(env or {}))), timeout_s, signal_after)


def read(outcome: Outcome, folder: Path) -> Outcome:
    """With what the run left in its folder."""
    outcome.folder, outcome.summary = folder if folder.is_dir() else None, summary(folder)
    return outcome


def finish(job: Job, timeout_s: float, signal_after: tuple[int, float] | None) -> Outcome:
    """Waits for a job and buries what is left of it; see observe() for `signal_after`."""
    if signal_after:
        number, seconds = signal_after
        job.wait_for("LAB t=", timeout_s)  # counted from the script's own start: a busy machine imports torch slowly
        try:
            job.process.wait(seconds)
        except subprocess.TimeoutExpired:
            job.signal_group(number)
    outcome = job.finish(timeout_s)
    job.bury()
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

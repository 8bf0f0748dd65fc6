"""Runs one case bare and under ``stepscope run`` and says what differs from what must come out."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cases import Case

import jobs
from jobs import Outcome

HERE = Path(__file__).resolve().parent
JOBS, HOOK_JOBS = HERE / "jobs", HERE.parent / "hooks" / "jobs"
TIMEOUT_S = 900  # a stuck job; machines with much else to do need minutes to start a framework
# A clean job must not be told to be anything else; what is slow in it is its own affair.
FALSE_ALARMS = ("RANK_LOST", "NO_DATA", "INCOMPLETE_DATA", "OBSERVER_DEGRADED", "EXTRA_COLLECTIVES")


@dataclass
class Verdict:
    case: Case
    wrong: list[str] = field(default_factory=list)
    skipped: str = ""
    steps: str = ""
    phases: list[str] = field(default_factory=list)
    validation: str = ""
    seconds: float = 0.0  # of the observed run

    @property
    def word(self) -> str:
        return "skipped" if self.skipped else "WRONG" if self.wrong else "ok"


class Machine:
    """The environment under test: an interpreter with torch and frameworks, the ``stepscope`` beside it."""

    def __init__(self, python: Path) -> None:
        self.python = python
        self.binary = python.with_name("stepscope")
        self.bare: dict[tuple[str, ...], Outcome] = {}
        self.versions: dict[str, str] = {}

    def environment(self, case: Case) -> dict[str, str]:
        usual = {
            "OMP_NUM_THREADS": "1",
            "PYTHONHASHSEED": "0",
            "CUDA_VISIBLE_DEVICES": "",
            "PLAIN": "1",
            "TOKENIZERS_PARALLELISM": "false",
            "HF_HUB_OFFLINE": "1",
            "PYTHONPATH": f"{JOBS}{os.pathsep}{HOOK_JOBS}",
            "TORCHINDUCTOR_CACHE_DIR": "/tmp/ss-inductor",
            "PATH": f"{self.python.parent}{os.pathsep}{os.environ['PATH']}",
        }
        return jobs.environment(**usual | case.env)

    def program(self, name: str) -> str | None:
        return shutil.which(name, path=f"{self.python.parent}{os.pathsep}{os.environ.get('PATH', '')}")

    def version(self, package: str) -> str:
        """Of a package in the environment, "" = not there."""
        if package not in self.versions:
            if package.startswith("bin:"):
                self.versions[package] = package[4:] if self.program(package[4:]) else ""
            else:
                names = {"ignite": "pytorch-ignite"}
                look = "import importlib.metadata as m, importlib.util as u, sys; print(u.find_spec(sys.argv[1]) and m.version(sys.argv[2]) or '')"
                words = [self.python, "-c", look, package, names.get(package, package)]
                done = jobs.run(words, timeout_s=TIMEOUT_S)
                self.versions[package] = done.stdout.strip()
        return self.versions[package]

    def missing(self, case: Case) -> str:
        if not self.binary.exists():
            return f"no stepscope beside {self.python}"
        absent = [n.removeprefix("bin:") for n in case.needs if not self.version(n)]
        return f"{', '.join(absent)} not installed" if absent else ""

    def run(self, case: Case, command: tuple[str, ...], observed: bool) -> Outcome:
        words = [w.format(python=self.python, jobs=JOBS, hook_jobs=HOOK_JOBS) for w in command]
        if words[0] == "torchrun" and not self.program("torchrun"):  # a borrowed torch brings no commands
            words[:1] = [str(self.python), "-m", "torch.distributed.run"]
        with tempfile.TemporaryDirectory(prefix="ss-matrix-") as folder:
            ours = [self.binary, "run", "--logs-dir", folder, "--run-name", "r", "--"] if observed else []
            ran = jobs.run([*ours, *words], self.environment(case), timeout_s=TIMEOUT_S, cwd=JOBS)
            ran.summary = jobs.summary(Path(folder, "r"))
            return ran

    def run_bare(self, case: Case) -> Outcome:
        command = case.bare or case.command
        if command not in self.bare:
            self.bare[command] = self.run(case, command, observed=False)
        return self.bare[command]

    def judge(self, case: Case) -> Verdict:
        verdict = Verdict(case, skipped=self.missing(case))
        if verdict.skipped:
            return verdict
        bare, ours = self.run_bare(case), self.run(case, case.command, observed=True)
        verdict.seconds = ours.seconds
        compare(verdict, bare, ours)
        if ours.summary is None:
            verdict.wrong.append(f"no summary: {complaint(ours)}")
        elif not verdict.wrong:
            check_summary(verdict, ours.said, ours.summary)
        return verdict


def complaint(ran: Outcome) -> str:
    """The line of its output that says most about a failure."""
    lines = [line for line in ran.stderr.splitlines() if line.strip()]
    errors = [line for line in lines if "Error: " in line or "TIMEOUT" in line]
    return " | ".join((errors or lines)[-2:])[-500:]


def compare(verdict: Verdict, bare: Outcome, ours: Outcome) -> None:
    """Exit code, and bitwise every fact that the job printed: losses, weights, steps, dynamo's counters."""
    if bare.rc != 0:
        verdict.wrong.append(f"the bare run left with {bare.rc}: {complaint(bare)}")
    if ours.rc != bare.rc:
        verdict.wrong.append(f"exit code {ours.rc}, bare {bare.rc}: {complaint(ours)}")
    for name, ran in (("bare", bare), ("observed", ours)):
        if not ran.said:
            verdict.wrong.append(f"the {name} run said nothing: {ran.stdout[-200:]}")
    for key in sorted(ours.said.keys() if verdict.case.bare else bare.said.keys() | ours.said.keys()):
        if not same(bare.said.get(key), ours.said.get(key)):
            verdict.wrong.append(f"{key}: {ours.said.get(key)}, bare {bare.said.get(key)}")


def same(theirs: Any, ours: Any) -> bool:
    """Dynamo may break graphs less often beside our hooks than alone, never more often."""
    if isinstance(theirs, dict) and isinstance(ours, dict) and "breaks" in theirs:
        return ours["breaks"] <= theirs["breaks"] and ours | {"breaks": 0} == theirs | {"breaks": 0}
    return theirs == ours


def wanted_steps(facts: dict[str, Any]) -> list[int]:
    """Of each fact its steps: {"steps": n, …}, [n, weights], or dynamo's counters (five calls each)."""
    return [f["steps"] if "steps" in f else 5 if isinstance(f, dict) else f[0] for f in facts.values()]


def check_summary(verdict: Verdict, facts: dict[str, Any], summary: dict[str, Any]) -> None:
    case, wrong, run = verdict.case, verdict.wrong, summary["run"]
    rows, ledgers = summary["per_rank"], summary["ledger"]["ranks"]
    if [r["rank"] for r in rows] != list(range(case.ranks)) or run["world_size"] != case.ranks:
        wrong.append(f"ranks {[r['rank'] for r in rows]} of {run['world_size']}, wanted {case.ranks}")
    if run["attempts"] != case.attempts:
        wrong.append(f"{run['attempts']} attempts, wanted {case.attempts}")
    if (run["status"], run["exit_code"]) != ("completed", 0) and case.attempts == 1:
        wrong.append(f"status {run['status']}, exit code {run['exit_code']}")
    wanted, counted = [n + case.steps_before for n in wanted_steps(facts)], [r["steps"] for r in rows]
    verdict.steps = "/".join(str(n) for n in sorted(set(counted)))
    if counted != (wanted if len(wanted) == case.ranks else wanted * case.ranks):
        wrong.append(f"steps {counted}, wanted {wanted}")
    seen = [c for c in ledgers[0]["categories"] if all(r["categories"][c] > 0 for r in ledgers)] if ledgers else []
    verdict.phases = [
        c
        for c in seen
        if c in ("input_wait", "forward", "backward", "optimizer", "validation", "checkpoint", "compile")
    ]
    if case.phases - set(seen):
        wrong.append(f"no time in {', '.join(sorted(case.phases - set(seen)))}")
    if case.validation:
        check_validation(verdict, facts, ledgers)
    if case.attempts == 1:
        wrong += [
            f"{f['kind']}: {f['title']}"
            for f in summary["findings"]
            if f["kind"] in FALSE_ALARMS and f["severity"] != "info"
        ]
    if summary["observer"]["lost"] or summary["observer"]["torn"]:
        wrong.append(f"{summary['observer']['lost']} records lost, {summary['observer']['torn']} torn")


def check_validation(verdict: Verdict, facts: dict[str, Any], ledgers: list[dict[str, Any]]) -> None:
    """What was slept in evaluations between steps lies in `validation`, and in a job without any there is none."""
    said = [f.get("validation_ms", 0) if isinstance(f, dict) else None for f in facts.values()]
    for row, wanted_ms in zip(ledgers, said if len(said) == len(ledgers) else said * len(ledgers)):
        if wanted_ms is None:
            continue
        found_ms = row["categories"]["validation"]
        verdict.validation = f"{found_ms:.0f} of {wanted_ms} ms" if wanted_ms else "none"
        if wanted_ms == 0 and found_ms > 0:
            verdict.wrong.append(f"{found_ms:.1f} ms of validation on rank {row['rank']}, there was none")
        if found_ms < wanted_ms:
            mixed = {c: round(v) for c, v in row["categories"].items() if v > 1}
            verdict.wrong.append(
                f"validation {found_ms:.0f} ms on rank {row['rank']}, slept {wanted_ms} ms there: {mixed}"
            )

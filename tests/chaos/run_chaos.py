#!/usr/bin/env python3
"""Random faults against short real jobs: training must not notice us, and the summary must be true.

    run_chaos.py --jobs 200 --seed 1 --out /tmp/chaos.jsonl     resumable: jobs that are in the file are not run again

Each job: 2 ranks under `stepscope run`, one fault at a random moment (strikes.py). Judged:
  exit    exit code equal to that of the launch command, written down by a wrapper inside (not when the launcher is killed)
  lines   the script's own lines complete up to the fault, losses bitwise those of a run without stepscope
  truth   summary there; kind and rank of the fault; last step within one; losses counted
torch's own aborts at the end of a gloo job (all lines printed, launch command not 0) are listed apart.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shlex
import shutil
import signal
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import strikes as do
from strikes import Fault

from drivers import bare, brief, quiet, read
from jobs import Job, Outcome, agent_pid, observed, python, torchrun

HERE = Path(__file__).resolve().parent
JOB, WRAPPER = HERE / "job.py", HERE.parent / "truth" / "wrapper.py"
NAME = "job"
STARTUP_S, END_S = 180, 120  # generous: a loaded machine imports torch slowly


@dataclass
class Result:
    index: int
    fault: dict
    done: str = ""  # what exactly was done
    struck: bool = False  # the fault happened while the ranks were alive
    rc: int | None = None
    own_rc: int | None = None
    last_step: list[int] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    torch_abort: bool = False
    said: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0


def losses(outcome: Outcome) -> dict[tuple[int, int], str]:
    """(rank, step) → loss bits."""
    text = "\n".join(outcome.lines("CHAOS "))
    return {(int(r), int(i)): bits for r, i, bits in re.findall(r"CHAOS rank=(\d) pid=\d+ step=(\d+) loss=(\w+)", text)}


def pids(text: str) -> dict[int, int]:
    return {int(r): int(p) for r, p in re.findall(r"CHAOS rank=(\d) pid=(\d+) imported", text)}


class Places:
    """Folders of one job. With mounts, logs and shared memory are small file systems in a mount namespace of its own, seen
    from here through /proc/<pid>/root and copied out at the end."""

    def __init__(self, scratch: Path, fault: Fault) -> None:
        self.scratch, self.fault = scratch, fault
        self.logs = scratch / "logs"
        self.logs.mkdir(parents=True)
        self.out = scratch / "out"

    def command(self) -> list[str]:
        run = observed(self.logs, NAME, "--", python(), WRAPPER, self.scratch / "rc.json", *torchrun(2, JOB))
        if not self.fault.needs_mounts():
            return run
        what, size = (self.logs, "256k") if self.fault.kind == "disk_full" else (Path("/dev/shm"), "8m")
        script = (
            f"mount -t tmpfs -o size={size} none {shlex.quote(str(what))} || exit 99; {shlex.join(run)}; rc=$?; "
            f"cp -r {shlex.quote(str(self.logs))} {shlex.quote(str(self.out))}; exit $rc"
        )
        return ["unshare", "-m", "sh", "-c", script]

    def inside(self, job: Job, path: Path) -> Path:
        """A path as the job sees it."""
        return Path(f"/proc/{job.process.pid}/root{path}") if self.fault.needs_mounts() else path

    def final_logs(self) -> Path:
        return self.out if self.fault.needs_mounts() else self.logs


def strike(job: Job, places: Places, fault: Fault, rng: random.Random) -> str:
    text = "\n".join(line for _, line in job.lines())
    rank_pid = pids(text).get(fault.rank)
    family = job.mark.alive()
    launcher = job.process.pid
    kind = fault.kind
    if kind in ("kill_rank", "stop_rank") and rank_pid is None:
        return "skipped: rank not started"
    if kind == "kill_rank":
        os.kill(rank_pid, signal.SIGKILL)
        return f"pid {rank_pid}"
    if kind == "stop_rank":
        return do.stop_for(rank_pid, fault.stop_s)
    if kind in ("kill_agent", "stop_agent"):
        agent = agent_pid(family)
        if agent is None:
            return "skipped: no agent found"
        if kind == "stop_agent":
            return do.stop_for(agent, fault.stop_s)
        os.kill(agent, signal.SIGKILL)
        return f"pid {agent}"
    if kind == "kill_launcher":
        os.kill(launcher, signal.SIGKILL)
        return f"pid {launcher}"
    if kind == "stop_launcher":
        return do.stop_for(launcher, fault.stop_s)
    if kind in ("scribble_ring", "truncate_ring"):
        ring = do.ring_of(places.logs / NAME, rank_pid or 0)
        if ring is None:
            return "skipped: no ring found"
        return do.scribble(ring, rng) if kind == "scribble_ring" else do.truncate(ring, rng)
    if kind == "disk_full":
        return do.fill(places.inside(job, places.logs))
    if kind == "shm_full":
        return do.fill(places.inside(job, Path("/dev/shm")))
    raise AssertionError(kind)


def wait_for_moment(job: Job, fault: Fault) -> bool:
    if fault.kind == "shm_full" and fault.at_step < 0:
        return True  # from the very beginning: the recorder finds no room at all
    if not job.wait_for(fault.moment(), STARTUP_S):
        return False
    time.sleep(fault.offset_s)
    return True


def wait_for_orphans(job: Job, places: Places) -> None:
    """The launcher was killed: the training and the agent go on; until both are gone."""
    end = time.monotonic() + END_S
    while time.monotonic() < end and job.mark.alive():
        time.sleep(0.05)


def alive(pid: int | None) -> bool:
    try:
        return pid is not None and Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def run_job(index: int, seed: int, steps: int, reference: dict, keep: Path | None) -> Result:
    fault = Fault.draw(seed * 100_003 + index, steps)
    result = Result(index, asdict(fault))
    rng = random.Random(fault.seed ^ 0x5EED)
    begin = time.monotonic()
    scratch = Path(tempfile.mkdtemp(prefix=f"stepscope-chaos-{index}-"))
    try:
        places = Places(scratch, fault)
        job = Job(places.command(), quiet(CHAOS_STEPS=str(steps)))
        if wait_for_moment(job, fault):
            victim = pids("\n".join(line for _, line in job.lines())).get(fault.rank)
            result.struck = alive(victim) or fault.kind == "shm_full"
            try:
                result.done = strike(job, places, fault, rng)
            except OSError as e:
                result.done = f"skipped: {e}"
        else:
            result.done = "skipped: the moment never came"
        if fault.kind == "kill_launcher":
            job.process.wait()
            wait_for_orphans(job, places)
        outcome = read(job.finish(END_S), places.final_logs() / NAME)
        left = job.bury()
        record = scratch / "rc.json"
        result.own_rc = json.loads(record.read_text())["rc"] if record.exists() else None
        result.rc = outcome.rc
        judge(result, fault, outcome, steps, reference)
        if left:
            result.wrong.append(f"{len(left)} processes were left behind")
        if result.wrong:
            result.notes.append("stderr: " + " | ".join(outcome.stderr.splitlines()[-8:])[:1500])
            if keep:
                target = keep / f"job{index}"
                shutil.rmtree(target, ignore_errors=True)
                shutil.copytree(scratch, target)
                (target / "stdout.txt").write_text(outcome.stdout)
                (target / "stderr.txt").write_text(outcome.stderr)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    result.seconds = time.monotonic() - begin
    return result


# -- judging ---------------------------------------------------------------------------------------------------------


def judge(r: Result, fault: Fault, outcome: Outcome, steps: int, reference: dict) -> None:
    if r.done.startswith("skipped"):
        r.wrong.append(r.done)
    if outcome.timed_out:
        r.wrong.append("timed out")
    if r.own_rc is None:
        r.wrong.append("the launch command's exit code was not recorded")
    elif fault.kind != "kill_launcher" and outcome.rc != r.own_rc:
        r.wrong.append(f"exit: {outcome.rc}, the launch command's own is {r.own_rc}")
    got = losses(outcome)
    r.last_step = [max((i for rank, i in got if rank == k), default=-1) for k in range(2)]
    judge_lines(r, fault, outcome, got, steps, reference)
    all_done = outcome.stdout.count(" done") == 2
    r.torch_abort = all_done and r.own_rc not in (0, None) and not (fault.kind == "kill_rank" and r.struck)
    judge_summary(r, fault, outcome, steps, all_done)


def judge_lines(r: Result, fault: Fault, outcome: Outcome, got: dict, steps: int, reference: dict) -> None:
    different = [k for k, bits in got.items() if reference.get(k) != bits]
    if different:
        r.wrong.append(f"lines: {len(different)} losses differ, first {min(different, key=lambda k: k[1])}")
    for rank in range(2):
        holes = [i for i in range(r.last_step[rank] + 1) if (rank, i) not in got]
        if holes:
            r.wrong.append(f"lines: rank {rank} has no line for steps {holes[:5]}")
        complete = r.last_step[rank] == steps - 1 and f"CHAOS rank={rank}" in outcome.stdout
        if fault.kind != "kill_rank" and not complete:
            r.wrong.append(f"lines: rank {rank} ends with step {r.last_step[rank]} of {steps}")
    if fault.kind == "kill_rank" and fault.at_step > 0 and min(r.last_step) < fault.at_step - 1:
        r.wrong.append(f"lines: last steps {r.last_step}, the fault came after step {fault.at_step}")


def judge_summary(r: Result, fault: Fault, outcome: Outcome, steps: int, all_done: bool) -> None:
    s = outcome.summary
    if s is None:
        # Without room for a file the loss must be stated and the verdict printed.
        if fault.kind == "disk_full" and re.search(r"space|full", outcome.stderr, re.I):
            return
        r.wrong.append("truth: no summary")
        return
    r.said = [brief(f) for f in outcome.loud()]
    observer = s["observer"]
    r.notes += [f"lost {observer['lost']} torn {observer['torn']}", *observer["unavailable"], *observer["notes"]]
    lossy = observer["lost"] + observer["torn"] > 0 or observer["unavailable"] or observer["notes"]
    lost = [f for f in outcome.findings if f["kind"] == "RANK_LOST"]
    if fault.kind == "kill_rank" and r.struck:
        judge_lost_rank(r, fault, lost, s)
    elif not r.torch_abort and [f for f in lost if f["severity"] != "info"]:
        r.wrong.append("truth: " + brief(lost[0]) + " although no rank was lost")
    blind = fault.kind in ("scribble_ring", "truncate_ring", "shm_full") and lossy
    count = s["steps"]["count"]
    if all_done and abs(count - steps) > 1 and not blind:
        r.wrong.append(f"truth: {count} steps, {steps} were made")
    if blind and count > steps + 1:
        r.wrong.append(f"truth: {count} steps, only {steps} were made")
    if fault.kind in ("scribble_ring", "truncate_ring", "shm_full") and abs(count - steps) > 1 and not lossy:
        r.wrong.append("truth: steps are missing and no loss is stated")
    if fault.kind == "kill_agent" and not any("restart" in n for n in observer["notes"]):
        r.wrong.append("truth: the agent was killed and no note says so")
    others = [
        f for f in outcome.loud() if f["kind"] not in ("RANK_LOST", "HIGH_CPU", "CPU_CONTENTION", "OBSERVER_DEGRADED")
    ]
    if fault.kind == "stop_rank":
        judge_stop(r, fault, others, s)
    elif wrong := [f for f in others if f["ranks"] and fault.kind not in ("kill_rank",)]:
        r.wrong.append("truth: blames " + "; ".join(brief(f) for f in wrong))


def judge_lost_rank(r: Result, fault: Fault, lost: list[dict], s: dict) -> None:
    known = [p for p in s["per_rank"] if p["rank"] == fault.rank]
    if not lost:
        if fault.at_step < 0 and not known:
            return  # killed before anything showed that it is a rank; the launch command's own report tells
        r.wrong.append(f"truth: rank {fault.rank} was killed and no RANK_LOST says so")
        return
    f = lost[0]
    if f["ranks"] != [fault.rank]:
        r.wrong.append(f"truth: rank {fault.rank} was killed, the summary says {brief(f)}")
    completed = r.last_step[fault.rank] + 1
    if f["steps"]["first"] is None or abs(f["steps"]["first"] - completed) > 1:
        r.wrong.append(f"truth: lost in step {f['steps']['first']}, {completed} steps were complete")
    if s["run"]["status"] != "crashed" and f["severity"] != "info":
        r.wrong.append(f"truth: status {s['run']['status']}")


def judge_stop(r: Result, fault: Fault, others: list[dict], s: dict) -> None:
    """Nobody else is blamed, and the figures show who kept the others waiting."""
    if wrong := [f for f in others if f["ranks"] and f["ranks"] != [fault.rank]]:
        r.wrong.append("truth: blames " + "; ".join(brief(f) for f in wrong))
    in_steps = fault.at_step >= 2 and r.struck and r.last_step[0] > fault.at_step + 2
    waits = {p["rank"]: p["caused_wait_ms"] or 0.0 for p in s["per_rank"]}
    if in_steps and fault.stop_s > 0.5 and len(waits) == 2 and max(waits, key=lambda k: waits[k]) != fault.rank:
        r.wrong.append(f"truth: rank {fault.rank} stood still for {fault.stop_s:.1f} s, waits caused {waits}")


# -- driver ----------------------------------------------------------------------------------------------------------


def load(out: Path | None, seed: int) -> dict[int, Result]:
    done: dict[int, Result] = {}
    if out and out.exists():
        for line in out.read_text().splitlines():
            row = json.loads(line)
            if row.pop("seed") == seed:
                done[row["index"]] = Result(**row)
    return done


def line_of(r: Result) -> str:
    f = r.fault
    when = "start-up" if f["at_step"] < 0 else f"step {f['at_step']}"
    verdict = "ok" if not r.wrong else "WRONG: " + "; ".join(r.wrong)
    apart = " (torch aborted in teardown)" if r.torch_abort else ""
    return (
        f"{r.index:4d} {f['kind']:14s} rank {f['rank']} at {when:9s} {r.done:28.28s} rc {r.rc}/{r.own_rc} last {r.last_step} "
        f"{r.seconds:5.1f} s {verdict}{apart}"
    )


def totals(results: list[Result]) -> bool:
    def clean(r: Result, *marks: str) -> bool:
        return not any(w.startswith(marks) for w in r.wrong)

    n = len(results)
    launch = sum(clean(r, "exit", "lines", "timed", "the launch") for r in results)
    truth = sum(clean(r, "truth") for r in results)
    print(
        f"\nexit code, lines, losses: {launch}/{n}; true summary: {truth}/{n}; all right: {sum(not r.wrong for r in results)}/{n}"
    )
    by_kind: dict[str, list[Result]] = {}
    for r in results:
        by_kind.setdefault(r.fault["kind"], []).append(r)
    for kind, rows in sorted(by_kind.items()):
        print(f"  {kind:14s} {sum(not r.wrong for r in rows)}/{len(rows)}")
    aborts = [r.index for r in results if r.torch_abort]
    print(f"torch's own aborts in teardown: {len(aborts)} {aborts or ''}")
    return all(not r.wrong for r in results)


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--jobs", type=int, default=200)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--only", help="job numbers, comma-separated")
    p.add_argument("--kinds", help="run only the jobs whose fault is one of these")
    p.add_argument("--steps", type=int, default=100)
    p.add_argument("--parallel", type=int, default=1)
    p.add_argument("--out", type=Path, help="results, a JSON line per job; jobs in it are not run again")
    p.add_argument("--keep", type=Path, help="keep folder and output of wrong jobs here")
    a = p.parse_args()
    indexes = [int(x) for x in a.only.split(",")] if a.only else list(range(a.jobs))
    if a.kinds:
        indexes = [i for i in indexes if Fault.draw(a.seed * 100_003 + i, a.steps).kind in a.kinds.split(",")]
    reference_run = bare(JOB, [], 2, env={"CHAOS_STEPS": str(a.steps)}, timeout_s=STARTUP_S)
    reference = losses(reference_run)
    if len(reference) != 2 * a.steps:
        sys.exit("the reference run without stepscope failed:\n" + reference_run.stderr[-2000:])
    results = load(a.out, a.seed)
    todo = [i for i in indexes if i not in results]

    def one(i: int) -> None:
        r = run_job(i, a.seed, a.steps, reference, a.keep)
        results[i] = r
        print(line_of(r), flush=True)
        if r.wrong:
            print("     said: " + "; ".join(r.said) + "\n     notes: " + "; ".join(r.notes), flush=True)
        if a.out:
            with a.out.open("a") as f:
                f.write(json.dumps({"seed": a.seed, **asdict(r)}) + "\n")

    with ThreadPoolExecutor(a.parallel) as pool:
        list(pool.map(one, todo))
    return 0 if totals([results[i] for i in indexes if i in results]) else 1


if __name__ == "__main__":
    sys.exit(main())

"""Real jobs that lose time at one line: the finding names it, within two lines; a healthy job is never asked."""

from __future__ import annotations

import pathlib
import re

import pytest

from jobs import torchrun

JOB = pathlib.Path(__file__).resolve().parent / "line_job.py"


def line_of(fault: str) -> int:
    """Where the job loses its time: the line marked `# here FAULT`, else the one marked `# here` in its function."""
    lines = JOB.read_text().splitlines()
    marked = [i for i, line in enumerate(lines, 1) if line.endswith(f"# here {fault}")]
    if marked:
        return marked[0]
    begin = next(i for i, line in enumerate(lines) if line.startswith(f"def {fault}("))
    return next(i for i, line in enumerate(lines[begin:], begin + 1) if line.endswith("# here"))


class Run:
    """A job under `stepscope run`: its summary, losses, and how many questions it was asked."""

    def __init__(self, launch, fault: str, ranks: int, *options: str, name: str = "r"):
        job = torchrun(ranks if ranks > 1 else 0, JOB, fault)
        words = ["run", "--run-name", name, "--html-report", *options, "--", *job]
        done = launch.run(*words, timeout=240, env={"CUDA_VISIBLE_DEVICES": ""})
        assert done.returncode == 0, done.stderr.decode()
        self.losses = sorted(re.findall(rb"losses ([^\n]*)", done.stdout))
        self.summary = launch.summary(name)
        log = (launch.run_dir(name) / "agent.log").read_text()
        self.account = re.findall(r"stacks for lines of code: (.*)", log)[-1]
        self.text = " ".join((launch.run_dir(name) / "final_summary.txt").read_text().split())
        self.page = (launch.run_dir(name) / "final_summary.html").read_text()
        print(fault, self.account, *(f"\n  {f['kind']} {f['title']}" for f in self.summary["findings"]))

    def questions(self) -> int:
        return sum(int(n) for n in re.findall(r"(\d+) questions", self.account))


def named_lines(finding: dict) -> list[int]:
    """Lines of the job that the finding's title names: first and last of a range."""
    return [int(n) for a, b in re.findall(r"at line_job\.py:(\d+)(?:–(\d+))?", finding["title"]) for n in (a, b) if n]


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault, ranks, kinds",
    [
        ("sleeps", 1, {"WAIT_HEAVY"}),
        pytest.param("computes_a_metric", 1, {"WAIT_HEAVY"}, marks=pytest.mark.long),
        pytest.param("waits_for_a_lock", 1, {"WAIT_HEAVY"}, marks=pytest.mark.long),
        pytest.param("logs", 2, {"WAIT_HEAVY"}, marks=pytest.mark.long),
        ("gathers_objects", 2, {"WAIT_HEAVY", "COMM_BOUND", "UNEXPLAINED_LOSS"}),
        pytest.param("saves", 1, {"CHECKPOINT_STALL"}, marks=pytest.mark.long),
        pytest.param("collates_slowly", 1, {"INPUT_BOUND"}, marks=pytest.mark.long),
        ("augments_on_one_rank", 2, {"COMPUTE_STRAGGLER"}),
        pytest.param("loads_slowly_on_one_rank", 2, {"INPUT_STRAGGLER"}, marks=pytest.mark.long),
        pytest.param("pauses_on_one_rank", 2, {"PAUSE_STRAGGLER"}, marks=pytest.mark.long),
    ],
)
def test_the_line_is_named(launch, fault, ranks, kinds):
    run = Run(launch, fault, ranks)
    said = [f for f in run.summary["findings"] if f["kind"] in kinds and named_lines(f)]
    assert said, run.account
    expected = line_of(fault)
    assert any(abs(line - expected) <= 2 for f in said for line in named_lines(f)), (expected, said)
    finding = next(f for f in said if any(abs(line - expected) <= 2 for line in named_lines(f)))
    share = next(e for e in finding["evidence"] if e["name"] == "line_share")
    assert share["value"] >= 0.5 and f"line_job.py:{named_lines(finding)[0]}" in share["text"]
    assert finding["title"] in run.text and f"line_job.py:{named_lines(finding)[0]}" in run.page
    assert 0 < run.questions() <= ranks * run.summary["run"]["duration_s"] * 10


@pytest.mark.slow
@pytest.mark.long
def test_the_thread_that_holds_the_gil_is_named(launch):
    run = Run(launch, "shares_the_gil", 1)
    holders = [e for f in run.summary["findings"] for e in f["evidence"] if e["name"] == "gil_holder_share"]
    assert holders, run.account
    line = re.match(r"line_job\.py:(\d+) crunch", holders[0]["text"])
    assert line and abs(int(line[1]) - line_of("shares_the_gil")) <= 2 and holders[0]["value"] >= 0.5, holders


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_healthy_job_is_never_asked(launch, ranks):
    run = Run(launch, "nothing", ranks)
    assert not [f["title"] for f in run.summary["findings"] if named_lines(f)]
    starved = [f for f in run.summary["findings"] if f["kind"] in ("HIGH_CPU", "CPU_CONTENTION") and ranks > 1]
    if not starved:  # two ranks that fight for cores with others lose time without a name
        assert run.questions() == 0, run.account


@pytest.mark.slow
@pytest.mark.long
def test_being_asked_changes_no_bit_of_the_losses(launch):
    asked, not_asked = Run(launch, "sleeps", 1), Run(launch, "sleeps", 1, "--stacks", "off", name="s")
    assert asked.questions() > 0
    assert not_asked.account == "nobody was asked"
    assert asked.losses and asked.losses == not_asked.losses

"""`stepscope report`: the summary again, from the file or worked out anew from the rings that a dead rank left."""

from __future__ import annotations

import json
import os
import signal

from test_deaths import RANKS, both_going


def test_report_prints_the_summary_again(launch):
    launch.run("run", "--run-name", "r", launch.script("r = FakeRank()\n[r.step(2) for _ in range(30)]\nr.close()"))
    for path in ("logs/r", "logs/r/final_summary.json"):
        result = launch.run("report", path)
        assert result.returncode == 0 and b"30 steps" in result.stdout and result.stderr == b""


def test_rings_alone_give_the_same_verdict(launch):
    process = launch.start("run", "--run-name", "r", launch.script(RANKS), "3000")
    pids = [int(p) for p in process.stdout.readline().split()]
    both_going(launch)
    os.kill(pids[1], signal.SIGKILL)
    process.communicate(timeout=30)
    first = launch.run("report", "logs/r").stdout.decode()
    (launch.run_dir() / "final_summary.json").unlink()
    again = launch.run("report", "logs/r").stdout.decode()
    rings = launch.run("report", "logs/r/blackbox").stdout.decode()
    assert "Rank 1 was killed by signal 9" in first
    title = next(line for line in first.splitlines() if "was killed by signal 9" in line)
    assert title in again and title in rings


def test_report_html(launch):
    launch.run("run", "--run-name", "r", launch.script("r = FakeRank()\n[r.step(2) for _ in range(30)]\nr.close()"))
    assert launch.run("report", "logs/r", "--html").returncode == 0
    assert (launch.run_dir() / "final_summary.html").read_text().lstrip().lower().startswith("<!doctype html")


def test_any_format_is_printed_or_written(launch):
    launch.run("run", "--run-name", "r", launch.script("r = FakeRank()\n[r.step(2) for _ in range(30)]\nr.close()"))
    printed = launch.run("report", "logs/r", "--format", "json")
    assert printed.returncode == 0 and json.loads(printed.stdout)["steps"]["count"] == 30
    page = launch.run("report", "logs/r", "--format", "html", "--output", "page.html")
    assert page.returncode == 0 and page.stdout == b""
    assert (launch.folder / "page.html").read_text().startswith("<!doctype html")

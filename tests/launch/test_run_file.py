"""`run.db` through the front door: report, rebuild, inspect."""

from __future__ import annotations

import json
from typing import Any

import pytest
from launches import Launch, refused

# What a run file does not keep: the rings' own losses, single collectives, the host's samples after the last write.
NOT_REBUILT = {"observer", "collectives", "system", "process"}


@pytest.fixture(name="ran")
def fixture_ran(launch: Launch) -> Launch:
    """A run of one process that plays a rank: 60 steps."""
    script = launch.script("r = FakeRank()\n[r.step(2) for _ in range(60)]\nr.close()")
    assert launch.run("run", "--run-name", "r", script).returncode == 0
    return launch


def same(was: Any, now: Any, path: str = "") -> list[str]:
    """Where two summaries differ; times within a thousandth, or within the file's quantum of a step."""
    if isinstance(was, dict) and isinstance(now, dict):
        return [d for key in was.keys() | now.keys() for d in same(was.get(key), now.get(key), f"{path}.{key}")]
    if isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        return [d for i, pair in enumerate(zip(was, now)) for d in same(*pair, f"{path}[{i}]")]
    numbers = all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in (was, now))
    if numbers and abs(was - now) <= 2e-3 * max(abs(was), abs(now)) + 2e-3:
        return []
    return [] if was == now else [f"{path}: {was} != {now}"]


def test_the_run_file_has_the_summary(ran: Launch) -> None:
    result = ran.run("report", "logs/r/run.db", "--json")
    assert result.returncode == 0 and json.loads(result.stdout) == ran.summary()
    assert result.stderr.decode().count("read from logs/r/run.db") == 1


@pytest.mark.parametrize(
    "text, why",
    [
        (None, "no such file"),
        ("", "not JSON, or cut off"),
        ('{"schema_version": "0.9", "run": {}}', "schema version 0.9 is not known"),
    ],
)
def test_a_summary_that_cannot_be_read_comes_from_the_run_file(ran: Launch, text: str | None, why: str) -> None:
    before = ran.run("report", "logs/r")
    path = ran.run_dir() / "final_summary.json"
    path.unlink() if text is None else path.write_text(text)
    result = ran.run("report", "logs/r")
    assert result.returncode == 0 and result.stdout == before.stdout
    said = result.stderr.decode()
    assert why in said and "the summary is read from logs/r/run.db" in said and said.count("\n") == 1


def test_a_rebuilt_summary_is_the_one_written_live(ran: Launch) -> None:
    result = ran.run("report", "logs/r", "--rebuild", "--json")
    assert result.returncode == 0 and b"worked out again from logs/r/run.db" in result.stderr
    live, again = ran.summary(), json.loads(result.stdout)
    for summary in (live, again):
        for key in NOT_REBUILT:
            summary.pop(key)
    assert same(live, again) == []


def test_neither_summary_nor_run_file(launch: Launch) -> None:
    (launch.folder / "empty").mkdir()
    assert "neither a final_summary.json nor a run.db" in refused(launch, "report", "empty")
    (launch.folder / "bad.db").write_bytes(b"SQLite format 3\0" + bytes(100))
    assert "bad.db" in refused(launch, "report", "bad.db")


def test_inspect_says_what_is_in_a_run_file(ran: Launch) -> None:
    result = ran.run("inspect", "logs/r/run.db")
    assert result.returncode == 0, result.stderr
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert lines[0]["name"] == "r" and lines[0]["status"] == "completed"
    steps = next(line for line in lines if "attempt" in line and "rows" in line)
    assert (steps["first_step"], steps["last_step"], steps["rows"]) == (0, 59, 60)
    assert [line["steps"] for line in lines if "rank" in line] == [60]
    assert {"forward", "backward", "optimizer"} <= {line["metric"] for line in lines if "metric" in line}
    assert lines[-1]["damaged"] == 0

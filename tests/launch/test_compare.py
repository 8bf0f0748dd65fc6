"""`stepscope compare`: two runs, one verdict, and an exit code for CI. The figures themselves: src/report/compare_test.cc."""

from __future__ import annotations

import json
import os

import pytest


@pytest.fixture
def pair(launch):
    """Two runs in which only the recorded median step differs: `slow` takes half as long again."""
    script = launch.script("r = FakeRank()\n[r.step(2) for _ in range(60)]\nr.close()")
    launch.run("run", "--run-name", "fast", script)
    summary = launch.summary("fast")
    summary["steps"]["wall_ms"] = {"p50": 10.0, "p90": 10.1, "p99": 10.2, "mean": 10.0}
    summary["steps"]["analyzed"] = 55
    (launch.run_dir("fast") / "final_summary.json").write_text(json.dumps(summary))
    summary["steps"]["wall_ms"] = {"p50": 15.0, "p90": 15.1, "p99": 15.2, "mean": 15.0}
    (launch.folder / "slow.json").write_text(json.dumps(summary))
    summary["steps"]["analyzed"] = 5
    (launch.folder / "short.json").write_text(json.dumps(summary))
    return launch


@pytest.mark.parametrize(
    "a, b, options, code, word",
    [
        ("logs/fast", "slow.json", [], 4, "REGRESSION"),
        ("slow.json", "logs/fast", [], 0, "IMPROVEMENT"),
        ("logs/fast", "logs/fast", [], 0, "SAME"),
        ("logs/fast", "short.json", [], 3, "INCONCLUSIVE"),
        ("logs/fast", "short.json", ["--fail-on", "regression"], 0, "INCONCLUSIVE"),
        ("logs/fast", "slow.json", ["--fail-on", "regression"], 4, "REGRESSION"),
        ("logs/fast", "slow.json", ["--fail-on", "never"], 0, "REGRESSION"),
        ("logs/fast", "slow.json", ["--least-change-pct", "60"], 0, "SAME"),
    ],
)
def test_verdict_and_exit_code(pair, a, b, options, code, word):
    result = pair.run("compare", *options, a, b)
    assert (result.returncode, result.stderr) == (code, b"")
    assert word in result.stdout.decode()


def test_files_and_json(pair):
    result = pair.run("compare", "logs/fast", "slow.json", "--json", "--output", "out")
    parsed = json.loads(result.stdout)
    assert parsed["outcome"] == "regression" and parsed["exit_code"] == 4
    assert json.loads((pair.folder / "out.json").read_text()) == parsed
    assert "REGRESSION" in (pair.folder / "out.txt").read_text()
    assert oct(os.stat(pair.folder / "out.json").st_mode & 0o777) == "0o600"
    failed = pair.run("compare", "logs/fast", "slow.json", "--output", "no/such/out")
    assert failed.returncode == 1 and failed.stderr.count(b"\n") == 1


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"schema_version": "9.0"}', "\x00\x01", '{"schema_version":"1.0","run":3}']
)
def test_a_broken_summary_is_one_line(pair, text):
    (pair.folder / "bad.json").write_text(text)
    for words in (["bad.json", "logs/fast"], ["logs/fast", "bad.json"]):
        result = pair.run("compare", *words)
        assert result.returncode == 2 and result.stdout == b""
        assert result.stderr.startswith(b"stepscope: bad.json") and result.stderr.count(b"\n") == 1

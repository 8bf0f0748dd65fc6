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
    summary["steps"]["recent"] = []  # of the machine that the tests run on: they would tell its noise
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
        ("logs/fast", "slow.json", ["--threshold", "60%"], 0, "SAME"),
        ("logs/fast", "slow.json", ["--threshold", "5%", "--fail-on", "regression"], 4, "REGRESSION"),
    ],
)
def test_verdict_and_exit_code(pair, a, b, options, code, word):
    result = pair.run("compare", *options, a, b)
    assert (result.returncode, result.stderr) == (code, b"")
    assert word in result.stdout.decode()


@pytest.fixture
def sides(pair):
    """Three runs a side: `b*` are 5 % slower than `a*`, `n*` too, among runs that differ by 10 %."""
    summary = json.loads((pair.folder / "slow.json").read_text())
    summary["steps"]["analyzed"] = 55
    for name, medians in {"a": (10, 10.1, 9.9), "b": (10.5, 10.6, 10.4), "n": (10.5, 11.5, 9.5)}.items():
        for i, p50 in enumerate(medians):
            summary["run"]["name"] = f"{name}{i}"
            summary["steps"]["wall_ms"] = {"p50": p50, "p90": p50 * 1.01, "p99": p50 * 1.02, "mean": p50}
            (pair.folder / f"{name}{i}.json").write_text(json.dumps(summary))
    return pair


A, B, NOISY = ([f"{side}{i}.json" for i in range(3)] for side in "abn")


@pytest.mark.parametrize(
    "words, code, word",
    [
        (["--baseline", *A, "--candidate", *B], 4, "REGRESSION"),
        (["--baseline", *B, "--candidate", *A], 0, "IMPROVEMENT"),
        (["--baseline", *A, "--candidate", *A], 0, "SAME"),
        (["--baseline", *A, "--candidate", *NOISY], 3, "INCONCLUSIVE"),
        (["--baseline", *A, "--candidate", *NOISY, "--fail-on", "regression"], 0, "INCONCLUSIVE"),
        (["--baseline", *A, "--candidate", *B, "--threshold", "8%"], 0, "SAME"),
        (["--baseline", *A, "--", *B], 4, "REGRESSION"),
        ([*B, "--baseline", *A], 4, "REGRESSION"),
        (["a0.json", "b0.json"], 4, "REGRESSION"),
        (["a0.json", "a2.json"], 0, "SAME"),
        (["a0.json", "a0.json", "--threshold", "1%"], 3, "INCONCLUSIVE"),  # one pair cannot tell so little
    ],
)
def test_several_runs_a_side(sides, words, code, word):
    result = sides.run("compare", *words)
    assert (result.returncode, result.stderr) == (code, b"")
    assert word in result.stdout.decode()


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["a0.json"],
        ["a0.json", "a1.json", "a2.json"],
        ["--baseline", *A],
        ["--candidate", *B],
        ["a0.json", "a1.json", "--candidate", "b0.json"],
        ["a0.json", "b0.json", "--threshold", "five"],
        ["a0.json", "b0.json", "--threshold", "%"],
        ["a0.json", "b0.json", "--json", "--markdown"],
        ["--baseline", *A, "--candidate", "none.json"],
    ],
)
def test_sides_that_make_no_sense_exit_with_2(sides, words):
    result = sides.run("compare", *words)
    assert result.returncode == 2 and result.stdout == b"" and result.stderr


def test_markdown_and_json_of_several_runs(sides):
    words = ["--baseline", *A, "--candidate", *B]
    result = sides.run("compare", *words, "--markdown", "--output", "out")
    text = result.stdout.decode()
    assert result.returncode == 4 and text.startswith("### REGRESSION\n")
    assert (sides.folder / "out.md").read_text() == text
    assert "3 and 3 runs; runs of one side differ by 1.0 %" in text
    parsed = json.loads((sides.folder / "out.json").read_text())
    assert [run["name"] for run in parsed["b"]["runs"]] == ["b0", "b1", "b2"]
    assert parsed["run_noise"] == pytest.approx(0.01) and parsed["figures"][0]["a"] == pytest.approx(10)


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

"""Thresholds that the user sets reach the rules, whichever way they are given, and the summary names them."""

from __future__ import annotations

import pytest
from launches import Launch, findings

FORTY_STEPS = """
    r = FakeRank()
    [r.step(2) for _ in range(40)]
    r.close()
"""


def observed(launch: Launch, *options: str, env: dict[str, str] | None = None) -> dict:
    done = launch.run("run", "--run-name", "r", *options, launch.script(FORTY_STEPS), env=env or {})
    assert done.returncode == 0, done.stderr.decode()
    return launch.summary()


def changed(summary: dict) -> dict[str, tuple[float, float]]:
    return {t["name"]: (t["value"], t["default"]) for t in summary["run"]["thresholds"]}


def notes(launch: Launch) -> str:
    return (launch.run_dir() / "final_summary.txt").read_text()


def test_defaults_are_no_changes(launch: Launch) -> None:
    summary = observed(launch)
    assert summary["run"]["thresholds"] == [] and "Thresholds changed" not in notes(launch)
    assert not findings(summary, "WARMUP"), summary["findings"]


@pytest.mark.parametrize("way", ["flag", "environment", "file"])
def test_a_threshold_decides_and_is_named(launch: Launch, way: str) -> None:
    if way == "flag":
        summary = observed(launch, "--set", "min_steps=1000", "--set", "gpu_hot_c=70")
    elif way == "environment":
        summary = observed(launch, env={"STEPSCOPE_SET": "min_steps=1000,gpu_hot_c=70"})
    else:
        (launch.folder / "stepscope.toml").write_text(
            "[thresholds]\nmin_steps = 1000\ngpu_hot_c = 70\nwarn_share = 0.05\n"
        )
        summary = observed(launch)
    assert findings(summary, "WARMUP"), "40 steps are fewer than the 1000 asked"
    assert changed(summary) == {"min_steps": (1000, 8), "gpu_hot_c": (70, 85)}, (
        "one of the host rules is a threshold too"
    )
    assert "Thresholds changed: gpu_hot_c 70 (default 85), min_steps 1000 (default 8)" in " ".join(
        notes(launch).split()
    )
    assert not [note for note in summary["observer"]["notes"] if "threshold" in note]
    again = launch.run("report", str(launch.run_dir())).stdout.decode()
    assert "min_steps 1000 (default 8)" in " ".join(again.split()), again


def test_the_flag_wins_over_the_environment_and_that_over_the_file(launch: Launch) -> None:
    (launch.folder / "stepscope.toml").write_text("[thresholds]\nmin_steps = 30\nwarn_share = 0.1\ncrit_share = 0.5\n")
    summary = observed(launch, "--set", "min_steps=10", env={"STEPSCOPE_SET": "min_steps=20,warn_share=0.2"})
    assert {name: value for name, (value, _) in changed(summary).items()} == {
        "min_steps": 10,
        "warn_share": 0.2,
        "crit_share": 0.5,
    }


def test_a_host_threshold_decides(launch: Launch) -> None:
    """Some memory of a host is always in use: with the bar at zero that is "nearly all"."""
    script = "r = FakeRank()\nuntil = time.time() + 3\nwhile time.time() < until: r.step(20)\nr.close()\n"
    words = ("run", "--run-name", "r", "--interval", "0.2")
    bars = ("memory_near_limit_share=0", "memory_at_limit_share=0", "min_samples=1")
    assert launch.run(*words, *[w for bar in bars for w in ("--set", bar)], launch.script(script)).returncode == 0
    summary = launch.summary()
    assert [f["severity"] for f in findings(summary, "HOST_MEMORY_PRESSURE")] == ["crit"], summary["findings"]

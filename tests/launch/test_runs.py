"""`stepscope runs`: what it lists, what it removes, and what it leaves alone."""

from __future__ import annotations

import json
import os
import pathlib
import time

import pytest
from launches import Launch, refused, wait_for

SHORT = "r = FakeRank()\n[r.step(2) for _ in range(40)]\nr.close()\n"


@pytest.fixture
def three_runs(launch) -> Launch:
    for days, name in ((40, "old"), (10, "middle"), (0, "new")):
        assert launch.run("run", "--run-name", name, launch.script(SHORT)).returncode == 0
        manifest = launch.run_dir(name) / "manifest.json"
        told = json.loads(manifest.read_text())
        told["started_at"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - days * 86400))
        manifest.write_text(json.dumps(told))
    return launch


def names(launch: Launch, *words: str) -> list[str]:
    done = launch.run("runs", *words, "--json")
    assert done.returncode == 0, done.stderr
    return [run["name"] for run in json.loads(done.stdout)]


def test_runs_are_listed_newest_first(three_runs):
    done = three_runs.run("runs")
    lines = done.stdout.decode().split("\n")
    assert done.returncode == 0 and lines[0].split()[:4] == ["Run", "Started", "(UTC)", "Took"]
    assert [line.split()[0] for line in lines[1:4]] == ["new", "middle", "old"]
    assert all("completed" in line and "40" in line for line in lines[1:4])
    assert names(three_runs, "logs") == ["new", "middle", "old"]


def test_json_tells_what_the_table_tells(three_runs):
    (newest, *_) = json.loads(three_runs.run("runs", "--json").stdout)
    assert newest["status"] == "completed" and newest["ranks"] == 1 and newest["steps"] == 40
    assert pathlib.Path(newest["folder"]).is_dir() and newest["bytes"] > 0 and newest["duration_s"] > 0


@pytest.mark.parametrize(
    "rules, left",
    [
        (["--keep", "2"], ["new", "middle"]),
        (["--older-than", "30"], ["new", "middle"]),
        (["--keep", "0"], []),
        (["--keep", "1", "--older-than", "30"], ["new", "middle"]),
        (["--keep", "2", "--older-than", "5"], ["new", "middle"]),
        (["--keep", "3"], ["new", "middle", "old"]),
    ],
)
def test_pruning_keeps_to_its_rules(three_runs, rules, left):
    done = three_runs.run("runs", "--prune", *rules, "--yes")
    assert done.returncode == 0, done.stderr
    assert names(three_runs) == left


def test_nothing_goes_without_a_yes(three_runs):
    done = three_runs.run("runs", "--prune", "--keep", "1")
    assert done.returncode == 2 and b"nothing is removed without --yes: 2 runs, " in done.stderr
    assert b"old" in done.stdout and b"new" not in done.stdout
    assert len(names(three_runs)) == 3


def test_what_is_no_run_of_ours_and_what_lives_stays(launch):
    logs = launch.folder / "logs"
    (logs / "mine").mkdir(parents=True)
    (logs / "mine" / "weights.pt").write_text("w")
    (logs / "note.txt").write_text("n")
    outside = launch.folder / "outside"
    outside.mkdir()
    (outside / "manifest.json").write_text('{"nonce": "ab", "status": "completed"}')
    os.symlink(outside, logs / "linked")
    process = launch.start("run", "--run-name", "alive", launch.script("r = FakeRank()\nwhile True: r.step(5)\n"))
    wait_for(lambda: (launch.run_dir("alive") / "manifest.json").exists(), what="the run")
    assert launch.run("run", "--run-name", "done", launch.script(SHORT, "short.py")).returncode == 0
    os.symlink(outside, launch.run_dir("done") / "link")
    assert launch.run("runs", "--prune", "--keep", "0", "--yes").returncode == 0
    assert sorted(p.name for p in logs.iterdir()) == ["alive", "linked", "mine", "note.txt"]
    assert (outside / "manifest.json").exists() and process.poll() is None
    assert names(launch) == ["alive"]


def test_a_run_that_was_cut_off_is_said_to_be(launch):
    folder = launch.run_dir("gone")
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(
        json.dumps({"nonce": "00", "status": "running", "started_at": "2020-01-01T00:00:00Z"})
    )
    assert b"running" in launch.run("runs").stdout, "it may live elsewhere"
    assert launch.run("runs", "--prune", "--keep", "0", "--yes").returncode == 0 and folder.exists()
    for path in (folder / "manifest.json", folder):
        os.utime(path, (0, 0))
    assert b"cut off" in launch.run("runs").stdout
    assert launch.run("runs", "--prune", "--keep", "0", "--yes").returncode == 0 and not folder.exists()


@pytest.mark.parametrize(
    "words, says",
    [
        (["nowhere"], "nowhere"),
        (["--prune"], "--prune needs a rule"),
        (["--keep", "3"], "go with --prune"),
        (["--prune", "--keep", "-1"], "--keep"),
        (["--prune", "--older-than", "x"], "--older-than"),
    ],
)
def test_what_makes_no_sense_is_refused(launch, words, says):
    (launch.folder / "logs").mkdir()
    assert says in refused(launch, "runs", *words)


def test_the_commands_of_the_page_work(launch):
    """Each command of docs/terminal.md as it stands there, with the names of runs that exist here."""
    page = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "terminal.md").read_text()
    commands = [line.partition("#")[0].split()[1:] for line in page.split("\n") if line.startswith("    stepscope ")]
    assert {words[0] for words in commands} == {"run", "top", "watch", "runs"}
    assert launch.run("run", "--run-name", "kept", launch.script(SHORT)).returncode == 0
    endless = launch.script("r = FakeRank()\nwhile True: r.step(5)\n", "endless.py")
    process = launch.start("run", "--run-name", "alive", endless)
    wait_for(lambda: (launch.run_dir("alive") / "manifest.json").exists(), what="the run")
    names = {"4100": str(process.pid), "logs/<run_name>": "logs/kept", "--nproc-per-node=4": "", "train.py": "train.py"}
    for words in commands:
        given = [names.get(word, word) for word in words]
        done = launch.run(*filter(None, given))
        said = done.stderr.decode()
        if words == ["top"]:  # other tests may run beside this one
            assert done.returncode == 0 or "several runs are live" in said
        elif "--prune" in words and "--yes" not in words:
            assert "--yes" in said or "no run to remove" in said
        else:
            assert done.returncode == 0, (words, said)

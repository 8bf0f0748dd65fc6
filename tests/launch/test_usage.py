"""A wrong command line: one clear line, exit 2, nothing started, nothing made."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    "words, part",
    [
        (["run"], "a script is expected"),
        (["run", "--"], "a command is expected"),
        (["run", "nothere.py"], "no such script: nothere.py"),
        (["run", "torchrun", "train.py"], "put -- before it"),
        (["run", "--bogus", "train.py"], "--bogus"),
        (["run", "--mode", "loud", "train.py"], "--mode must be"),
        (["run", "--mode"], "--mode"),
        (["run", "--interval", "soon", "train.py"], "--interval must be"),
        (["run", "--run-name", "../x", "train.py"], "--run-name must be"),
        (["run", "train.py", "--nproc-per-node"], "--nproc-per-node needs a value"),
        (["run", "train.py", "--nnodes="], "--nnodes needs a value"),
        (["run", "--nproc-per-node", "2", "--", "python", "train.py"], "--nproc-per-node goes with a script"),
        (["run", "-m"], "-m needs the name of a module"),
        (["report"], "run is required"),
        (["report", "nothere"], "nothere"),
        (["run", "--compat", "wandb", "train.py"], "--compat must be traceml or none"),
        (["view", "nothere"], "nothere"),
        (["report", "nothere", "--format", "quantum"], "json, html, text"),
        (["compare"], "two runs are expected"),
        (["compare", "nothere"], "two runs are expected"),
        (["compare", "nothere", "neither"], "nothere"),
        (["compare", "train.py", "train.py"], "train.py"),
        (["compare", "a", "b", "--fail-on", "rain"], "--fail-on"),
        (["compare", "a", "b", "--threshold", "x%"], "--threshold"),
        (["export"], "run is required"),
        (["export", "nothere"], "nothere: no such file"),
        (["export", "nothere", "--table", "pages"], "no table is called 'pages': steps, ledger, "),
        (["export", "nothere", "--table", "all"], "all tables go into a folder: name it with --output"),
        (["export", "nothere", "--format", "parquet"], "parquet goes into a file: name it with --output"),
        (["export", "nothere", "--format", "xlsx"], "--format"),
        (["inspect"], "file is required"),
        (["inspect", "nothere.ring"], "nothere.ring"),
        (["inspect", "train.py"], "train.py"),
        (
            ["run", "--set", "warn_shar=0.1", "train.py"],
            "no threshold is called 'warn_shar'; the nearest is warn_share",
        ),
        (["run", "--set", "warn_share=5", "train.py"], "warn_share must be a share from 0 to 1"),
        (["run", "--set", "warn_share=0.1", "--set", "min_steps=0", "train.py"], "min_steps must be"),
        (["run", "--set", "warn_share", "train.py"], "NAME=VALUE"),
        (["run", "--set"], "--set"),
        (["compare", "run", "report"], "run"),
        (["report", "a", "b"], "b"),
        (["explain", "a", "b"], "b"),
        (["explain", "nothing-like-it"], "no page about"),
        (["attach"], "pid is required"),
        (["attach", "me"], "me"),
        (["fly"], "unknown verb: fly"),
        ([], "a verb is expected"),
        (["agent"], "started by stepscope run only"),
    ],
)
def test_one_line_and_exit_2(launch, words, part):
    launch.script("open('ran', 'w')")
    result = launch.run(*words)
    text = result.stderr.decode()
    assert result.returncode == 2
    assert part in text and text.startswith("stepscope: ") and text.count("\n") == 1
    assert result.stdout == b""
    assert not (launch.folder / "ran").exists() and not (launch.folder / "logs").exists()


def test_a_command_that_cannot_run(launch):
    result = launch.run("run", "--", "no-such-program-here")
    assert (result.returncode, result.stderr) == (
        127,
        b"stepscope: cannot run 'no-such-program-here': No such file or directory\n",
    )
    (launch.folder / "plain").write_text("data")
    assert launch.run("run", "--", "./plain").returncode == 126
    assert list((launch.folder / "logs").iterdir()) == []


@pytest.mark.parametrize(
    "text, part",
    [
        ("mode = \n", "line 1: "),
        ("\nmode = 'summary'\nrun_name = [1]\n", "line 3: run_name must be a"),
        ("mode = 'loud'", "line 1: mode must be"),
        ("[thresholds]\nx = 'y'", "line 2: x must be a number"),
        ("\x00", "line 1: "),
        ("[thresholds]\nwarn_shar = 0.1", "line 2: no threshold is called 'warn_shar'; the nearest is warn_share"),
        ("[thresholds]\nwarn_share = 5", "line 2: warn_share must be a share from 0 to 1"),
    ],
)
def test_broken_settings_file(launch, text, part):
    (launch.folder / "stepscope.toml").write_text(text)
    result = launch.run("run", launch.script("print(1)"))
    assert (result.returncode, result.stdout) == (2, b"")
    assert part in result.stderr.decode() and result.stderr.count(b"\n") == 1


def test_flag_over_environment_over_file(launch):
    (launch.folder / "stepscope.toml").write_text("run_name = 'from-file'\nlogs_dir = 'l1'\n[run]\ninterval = 2\n")
    script = launch.script("print(1)")
    launch.run("run", script)
    launch.run("run", script, env={"STEPSCOPE_RUN_NAME": "from-env"})
    launch.run("run", "--run-name", "from-flag", "--logs-dir", "l2", script, env={"STEPSCOPE_RUN_NAME": "from-env"})
    assert sorted(p.name for p in (launch.folder / "l1").iterdir()) == ["from-env", "from-file"]
    assert [p.name for p in (launch.folder / "l2").iterdir()] == ["from-flag"]


def test_unknown_names_in_the_file_are_named_and_left_out(launch):
    (launch.folder / "stepscope.toml").write_text("colour = 'red'\n")
    result = launch.run("run", launch.script("print(1)"))
    assert result.returncode == 0
    assert b"line 1: colour is not a setting" in result.stderr


def test_version_and_help(launch):
    assert launch.run("--version").stdout.startswith(b"stepscope 0.")
    for words in (["--help"], ["run", "--help"], ["report", "--help"]):
        result = launch.run(*words)
        assert result.returncode == 0 and b"stepscope" in result.stdout and result.stderr == b""

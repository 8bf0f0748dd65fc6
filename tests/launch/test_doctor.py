"""`stepscope doctor`: one line per thing, words and exit code say whether trainings can be observed here."""

from __future__ import annotations

import json
import pathlib
import sys

import pytest

from jobs import ROOT, Outcome, binary, environment, run

ENV = environment(STEPSCOPE_PYTHON_DIR=str(ROOT / "python"))


def doctor(*words: str, **env: str) -> Outcome:
    return run([binary(), "doctor", *words], ENV | env, timeout_s=120)


def by_name(done: Outcome) -> dict[str, dict]:
    return {c["name"]: c for c in json.loads(done.stdout)["checks"]}


@pytest.fixture(scope="module")
def whole() -> Outcome:
    env = environment()  # the installed package: a checkout's has no native part
    return run([binary(), "doctor", "--json"], env, timeout_s=120)


def test_this_machine_can_be_observed(whole: Outcome) -> None:
    assert whole.rc == 0, whole.stdout + whole.stderr
    checks = by_name(whole)
    assert json.loads(whole.stdout)["can_observe"] is True
    for name in ("shared memory", "logs folder", "python", "injection", "recorder", "torch", "hooks", "gloo"):
        assert checks[name]["state"] == "ok", checks[name]
    assert sys.version.split()[0] in checks["python"]["text"]
    assert "/dev/shm" in checks["shared memory"]["text"]
    for name in (
        "CUDA driver",
        "GPU health",
        "run-queue delay",
        "USS and PSS",
        "cgroup limits",
        "nccl",
        "gpu_time",
        "perf events",
    ):
        assert checks[name]["state"] in ("ok", "degraded", "missing") and checks[name]["text"]
    assert "forward" in checks["hooks"]["text"] and "advice" in checks["hooks"]["text"]


def fake_python(folder: pathlib.Path, command: str) -> str:
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{command}\n")
    path.chmod(0o755)
    return str(path)


def test_an_isolated_interpreter_cannot_be_hooked(tmp_path: pathlib.Path) -> None:
    done = doctor("--python", fake_python(tmp_path, f'exec {sys.executable} -I "$@"'), "--json")
    assert done.rc == 1
    injection = by_name(done)["injection"]
    assert injection["state"] == "missing" and "-I" in injection["text"] and "stepscope.init()" in injection["text"]


def test_another_sitecustomize_in_front_is_named(tmp_path: pathlib.Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("")
    done = doctor(
        "--python", fake_python(tmp_path, f'PYTHONPATH={tmp_path}:$PYTHONPATH exec {sys.executable} "$@"'), "--json"
    )
    assert done.rc == 1
    assert str(tmp_path / "sitecustomize.py") in by_name(done)["injection"]["text"]


@pytest.mark.parametrize("command, word", [("exit 3", "exit code 3"), ("echo no json; exit 0", "")])
def test_a_python_that_is_none(tmp_path: pathlib.Path, command: str, word: str) -> None:
    done = doctor("--python", fake_python(tmp_path, command))
    assert done.rc == 1
    line = next(line for line in done.stdout.splitlines() if line.split()[1:2] == ["python"])
    assert line.startswith("missing") and word in line
    assert "cannot be observed here" in done.stdout.splitlines()[-1]


def test_no_interpreter_and_no_python_part(tmp_path: pathlib.Path) -> None:
    done = doctor("--python", str(tmp_path / "absent"))
    assert done.rc == 1 and "No such file" in done.stdout
    done = doctor(STEPSCOPE_PYTHON_DIR=str(tmp_path))
    assert done.rc == 1 and "Python part" in done.stdout


def test_every_line_has_a_state(tmp_path: pathlib.Path) -> None:
    lines = doctor("--python", fake_python(tmp_path, "exit 3")).stdout.splitlines()
    assert len(lines) > 8
    assert all(line.split()[0] in ("ok", "degraded", "missing") for line in lines[:-1])


def test_settings_that_are_wrong_are_said(tmp_path: pathlib.Path) -> None:
    (tmp_path / "stepscope.toml").write_text("interval = -1\n")
    done = run([binary(), "doctor", "--python", "/bin/false"], ENV, timeout_s=60, cwd=tmp_path)
    assert done.rc == 1 and "stepscope.toml" in done.stdout


def test_usage() -> None:
    assert doctor("--bogus").rc == 2

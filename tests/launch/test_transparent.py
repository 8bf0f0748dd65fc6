"""The training runs as without us: exit code, output, input, arguments, working directory, environment, signals."""

from __future__ import annotations

import json
import os
import signal
import sys

import pytest
from launches import binary


@pytest.mark.parametrize(
    "body, code",
    [
        ("pass", 0),
        ("sys.exit(3)", 3),
        ("sys.exit(255)", 255),
        ("raise ValueError('no')", 1),
        ("os.kill(os.getpid(), 9)", 128 + 9),
        ("import signal; signal.signal(15, signal.SIG_DFL); os.kill(os.getpid(), 15)", 128 + 15),
        ("os.abort()", 128 + 6),
    ],
)
def test_exit_code_is_the_trainings(launch, body, code):
    result = launch.run("run", "--run-name", "r", launch.script(body))
    assert result.returncode == code
    assert launch.summary()["run"]["exit_code"] == code


@pytest.mark.parametrize("options", [[], ["--disable"]])
def test_stdout_and_stdin_pass_byte_for_byte(launch, options):
    script = launch.script("sys.stdout.buffer.write(sys.stdin.buffer.read()); sys.stdout.buffer.flush()")
    data = bytes(range(256)) * 3000
    result = launch.run("run", *options, script, input=data)
    assert result.stdout == data
    assert result.returncode == 0


def test_stderr_holds_the_scripts_lines_before_the_summary(launch):
    script = launch.script("print('mine', file=sys.stderr)\nr = FakeRank()\n[r.step(1) for _ in range(5)]\nr.close()")
    result = launch.run("run", "--run-name", "r", script)
    text = result.stderr.decode()
    assert text.startswith("mine\n")
    assert text[len("mine\n") :] == (launch.run_dir() / "final_summary.txt").read_text()
    assert text.count("rank on 1 node") == 1


PROBE = """
import json, signal
json.dump({"argv": sys.argv, "cwd": os.getcwd(), "main": __name__, "file": __file__,
           "env": {k: v for k, v in os.environ.items() if not k.startswith("STEPSCOPE_") and k != "PYTHONPATH"},
           "path0": sys.path[0] if False else None,
           "group": os.getpgrp(), "session": os.getsid(0),
           "mask": sorted(int(s) for s in signal.pthread_sigmask(signal.SIG_BLOCK, [])),
           "handlers": {int(s): str(signal.getsignal(s)) for s in signal.valid_signals()},
           "fds": sorted(int(f) for f in os.listdir("/proc/self/fd"))}, sys.stdout)
"""


@pytest.mark.parametrize("options", [[], ["--disable"]])
def test_the_script_sees_what_it_would_see_without_us(launch, options):
    script = launch.script(PROBE)
    words = ["--lr", "0.1", "--", "-x", "", "ä b"]
    read, write = os.pipe()  # a descriptor that the user hands down
    try:
        observed = json.loads(launch.run("run", *options, script, "--args", *words, pass_fds=(write,)).stdout)
        alone = launch.spawn([sys.executable, script, *words], launch.environment(), pass_fds=(write,))
        bare = json.loads(alone.communicate()[0])
    finally:
        os.close(read), os.close(write)
    for key in ("argv", "cwd", "main", "file", "env", "mask", "handlers", "fds"):
        assert observed[key] == bare[key], key


def test_the_script_shares_the_process_group_of_the_launcher(launch):
    process = launch.start("run", launch.script("print(os.getpgrp(), os.getsid(0))"))
    out, _ = process.communicate(timeout=30)
    assert out.split() == [str(process.pid).encode()] * 2


def test_ignored_signals_stay_ignored(launch):
    script = launch.script(
        "import signal; print(*(signal.getsignal(s) == signal.SIG_IGN for s in (signal.SIGHUP, signal.SIGCHLD)))"
    )

    def both():
        return (signal.signal(signal.SIGHUP, signal.SIG_IGN), signal.signal(signal.SIGCHLD, signal.SIG_IGN))

    result = launch.run("run", script, preexec_fn=both)
    assert result.stdout == b"True True\n"
    assert result.returncode == 0


def test_any_command_runs_and_keeps_its_words(launch):
    result = launch.run(
        "run", "--run-name", "r", "--", "sh", "-c", 'printf "%s|" "$@"; exit 7', "sh", "--lr", "--", "--mode"
    )
    assert result.stdout == b"--lr|--|--mode|"
    assert result.returncode == 7
    assert launch.summary()["run"]["command"][:2] == ["sh", "-c"]


def test_disable_leaves_no_trace(launch):
    script = launch.script("print('STEPSCOPE_SHM' in os.environ, os.environ.get('PYTHONPATH'))")
    result = launch.run("run", "--disable", script)
    assert (result.stdout, result.stderr) == (b"False None\n", b"")
    assert not (launch.folder / "logs").exists()
    result = launch.run("run", script, env={"STEPSCOPE_DISABLE": "1"})
    assert (result.stdout, result.stderr) == (b"False None\n", b"")


def test_a_reader_of_the_output_sees_its_end_at_once(launch):
    """No process of ours holds the training's pipes open after the launcher."""
    command = f"{binary()} run --run-name r {launch.script('print(1)')} | cat"
    process = launch.spawn(["bash", "-c", command], launch.environment())
    assert process.communicate(timeout=30)[0] == b"1\n"


def test_closed_standard_files(launch):
    script = launch.script("os.write(1, b'ok\\n')")
    process = launch.spawn(["bash", "-c", f"{binary()} run {script} <&- 2>&-"], launch.environment())
    assert process.communicate(timeout=30)[0] == b"ok\n" and process.returncode == 0


def test_users_pythonpath_follows_ours(launch):
    (launch.folder / "lib").mkdir()
    (launch.folder / "lib" / "mine.py").write_text("x = 41")
    script = launch.script("import mine; print(mine.x + 1, os.environ['PYTHONPATH'].split(':')[0])")
    out = launch.run("run", script, env={"PYTHONPATH": str(launch.folder / "lib")}).stdout.split()
    assert out[0] == b"42"
    assert out[1].endswith(b"/stepscope/_inject")


def test_python_without_site_is_told(launch):
    script = launch.script("print('mine')")
    result = launch.run("run", "--run-name", "r", "--", sys.executable, "-S", script)
    assert (result.returncode, result.stdout) == (0, b"mine\n")
    assert result.stderr.decode().startswith("stepscope: python -S starts without site")
    assert any("python -S" in note for note in launch.summary()["observer"]["notes"])
    assert b"without site" not in launch.run("run", "--", sys.executable, script, "-S").stderr

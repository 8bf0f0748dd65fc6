"""The terminal view in a real terminal: keys, sizes, colours, and a terminal that is as it was however it ends."""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import sys

import pytest
from launches import Launch, binary, refused, wait_for

from tmux import Terminal, needs_tmux

pytestmark = needs_tmux

ENDLESS = """
r = FakeRank()
print("train: started", flush=True)
until = time.monotonic() + float(sys.argv[1])
while time.monotonic() < until:
    r.step(8)
r.close()
print("train: done", flush=True)
"""


@pytest.fixture
def terminal(launch, tmp_path):
    opened: list[Terminal] = []

    def open_terminal(columns: int = 80, rows: int = 24, term: str = "", **env: str) -> Terminal:
        folder = tmp_path / f"terminal{len(opened)}"
        folder.mkdir()
        opened.append(Terminal(folder, launch.environment(**env), columns, rows, term))
        opened[-1].type(f"cd {tmp_path}; clear")
        opened[-1].wait_for("cd ", gone=True)
        return opened[-1]

    yield open_terminal
    for one in opened:
        one.close()


def live(launch: Launch, seconds: float = 60, name: str = "live"):
    """A run that goes on, found by its agent's word."""
    process = launch.start("run", "--run-name", name, launch.script(ENDLESS), str(seconds))
    wait_for(lambda: (launch.run_dir(name) / "manifest.json").exists(), what="the agent")
    return process


def assert_clean(t: Terminal, modes: str) -> None:
    """The ordinary screen, its cursor, and the line settings from before."""
    assert not t.covered() and t.cursor_shown()
    assert t.modes("after") == modes


def test_top_shows_a_live_run_and_leaves_on_q(launch, terminal):
    live(launch)
    t = terminal()
    modes = t.modes("before")
    t.run(binary(), "top", "live")
    t.wait_for("live · 1 rank on 1 node", "running", "q quit", "Own time per step, ms", "Rank  Step ms")
    assert t.covered() and not t.cursor_shown()
    t.keys("q")
    t.wait_for("before=")
    assert_clean(t, modes)


@pytest.mark.parametrize("by", ["name", "launcher", "rank", "folder"])
def test_watch_finds_a_run(launch, by):
    process = live(launch)
    rank = wait_for(lambda: [p for p in launch.mark.alive() if b"python" in command_line(p).split(b"\0")[0]])
    word = {"name": "live", "launcher": str(process.pid), "rank": str(rank[0]), "folder": "logs/live"}[by]
    done = launch.run("watch", word, "--once")
    assert done.returncode == 0 and b"live \xc2\xb7 " in done.stdout and b"running" in done.stdout, done.stderr


def command_line(pid: int) -> bytes:
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_what_cannot_be_shown_is_said_in_one_line(launch):
    assert "no run is called 'nothing'" in refused(launch, "top", "nothing")
    assert "is of no live run" in refused(launch, "watch", "1")
    live(launch, name="one")
    live(launch, name="two")
    line = refused(launch, "top")
    assert "several runs are live, name one: " in line and "one (pid " in line and "two (pid " in line


def test_a_kept_run_is_shown_as_it_ended(launch, terminal):
    launch.run("run", "--run-name", "kept", launch.script(ENDLESS), "1")
    for word in ("logs/kept", "kept", "logs/kept/final_summary.json", "logs/kept/run.db"):
        done = launch.run("top", word)
        assert done.returncode == 0 and b"kept \xc2\xb7 1 rank" in done.stdout and b"completed" in done.stdout, (
            done.stderr
        )
    assert "is no live run" in refused(launch, "watch", "logs/kept")
    t = terminal()
    t.run(binary(), "top", "logs/kept")
    t.wait_for("kept · 1 rank", "completed", "q quit")
    t.keys("q")
    t.wait_for("$")


def test_keys_sort_panes_detail_help(launch, terminal):
    live(launch)
    t = terminal(100, 30)
    t.run(binary(), "top", "live")
    t.wait_for("those that delay others most first")
    t.keys("2", "s", "s", "s")
    t.wait_for("Ranks  by Step", "Step ms ▾", "own time over that of")
    t.keys("r")
    t.wait_for("Step ms ▴", "reversed")
    t.keys("6")
    t.wait_for("Sections", "System", "Process")
    t.keys("?")
    t.wait_for("Keys", "leave; the training goes on")
    t.keys("Escape")
    t.keys("1")
    t.wait_for("Own time per step, ms")
    t.keys("Enter")
    if "Finding 1 of" not in t.screen():
        t.wait_for("Finding 1 of", "stepscope explain")
    t.keys("Escape")
    t.wait_for("Own time per step, ms")
    t.keys("Space")
    t.wait_for("paused")
    t.keys("q")
    t.wait_for("$")


def test_it_follows_the_size_of_the_terminal(launch, terminal):
    live(launch)
    t = terminal(80, 24)
    t.run(binary(), "top", "live")
    t.wait_for("q quit", "space hold")
    for columns, rows in ((200, 50), (120, 40), (20, 24), (20, 3), (80, 24)):
        t.resize(columns, rows)

        def fits() -> bool:
            lines = t.screen().rstrip("\n").split("\n")
            return len(lines) == rows and lines[-1].startswith("q quit") and lines[0].startswith("live")

        wait_for(fits, what=f"{columns} × {rows}")
    t.keys("q")
    t.wait_for("$")


@pytest.mark.parametrize(
    "env, has, hasnt",
    [
        ({"COLORTERM": "truecolor"}, "", ""),
        ({}, "38;5;", "38;2;"),
        ({"NO_COLOR": "1"}, "", "38;5;"),
    ],
)
def test_colours(launch, terminal, env, has, hasnt):
    live(launch)
    t = terminal(**env)
    for name, value in env.items():
        t.type(f"export {name}={value}; clear")
    t.run(binary(), "top", "live")
    t.wait_for("Own time per step, ms", "time    ")
    styled = t.screen(styles=True)
    assert has in styled and (not hasnt or hasnt not in styled)
    t.keys("q")
    t.wait_for("$")


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_terminal_that_cannot_move_the_cursor_gets_it_printed(launch, terminal, term):
    live(launch)
    t = terminal(100, 70)
    t.type(f"export TERM={term}; clear" if term else "unset TERM; clear")
    t.run(binary(), "top", "live")
    t.wait_for("printed once: TERM is " + (f"'{term}'" if term else "not set"), "live · 1 rank")
    assert not t.covered()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGSEGV, signal.SIGABRT])
def test_the_terminal_is_clean_after_any_end(launch, terminal, number):
    live(launch)
    t = terminal()
    modes = t.modes("before")
    t.type(f"{binary()} top live; echo code $?")
    t.wait_for("Own time per step, ms")
    if number == signal.SIGINT:
        t.keys("C-c")
    else:
        viewer = wait_for(lambda: [p for p in pids_of_tmux(t) if b"\0top\0" in command_line(p)], what="viewer")
        os.kill(viewer[0], number)
    t.wait_for(f"code {128 + number}" if number != signal.SIGINT else "$")
    assert_clean(t, modes)


def pids_of_tmux(t: Terminal) -> list[int]:
    """The pane's shell and its children."""
    shell = int(t.tmux("display-message", "-p", "#{pane_pid}"))
    children = pathlib.Path(f"/proc/{shell}/task/{shell}/children").read_text().split()
    return [shell, *map(int, children)]


def test_stopped_and_continued(launch, terminal):
    live(launch)
    t = terminal()
    modes = t.modes("before")
    t.run(binary(), "top", "live")
    t.wait_for("Own time per step, ms")
    t.keys("C-z")
    t.wait_for("Stopped")
    assert_clean(t, modes)
    t.type("fg")
    t.wait_for("Own time per step, ms", "q quit")
    assert t.covered()
    t.keys("q")
    t.wait_for("Stopped")
    assert_clean(t, modes)


def test_the_end_of_the_run_ends_the_view_with_the_verdict(launch, terminal):
    live(launch, 3)
    t = terminal(100, 30)
    modes = t.modes("before")
    t.run(binary(), "top", "live")
    t.wait_for("q quit")
    t.wait_for("live · 1 rank on 1 node", "completed", "Files", str(launch.run_dir("live")))
    assert_clean(t, modes)


VERBOSE = """
import os, sys
r = FakeRank()
print("tty", [os.isatty(fd) for fd in (0, 1, 2)], os.get_terminal_size(1).columns, flush=True)
sys.stdout.write("bytes \\x1b[35mviolet\\x1b[0m\\ttab\\n"); sys.stdout.flush()
print("to stderr", file=sys.stderr, flush=True)
until = time.monotonic() + float(sys.argv[1])
while time.monotonic() < until:
    r.step(8)
r.close()
print("last line", flush=True)
sys.exit(7)
"""


def test_run_shows_the_view_and_then_what_the_training_wrote(launch, terminal):
    t = terminal(100, 40)
    modes = t.modes("before")
    t.type(f"clear; {binary()} run --mode cli --run-name r {launch.script(VERBOSE)} 4; echo code $?")
    t.wait_for("r · 1 rank on 1 node", "running", "Output", "to stderr", "violet")
    assert t.covered()
    t.wait_for("code 7")
    history = t.history()
    at = [
        history.index(text)
        for text in ("tty [False, True, True] 100", "violet", "to stderr", "last line", "stepscope  r")
    ]
    assert at == sorted(at)
    log = (launch.run_dir() / "output.log").read_bytes()
    assert log.startswith(b"tty [False, True, True] 100\nbytes \x1b[35mviolet\x1b[0m\ttab\nto stderr\n")
    assert log.endswith(b"last line\n")
    assert launch.summary()["run"]["exit_code"] == 7
    assert_clean(t, modes)


PLAIN = """
r = FakeRank()
for i in range(3):
    os.write(1, b"line %d \\x00\\xff\\r\\n" % i)
until = time.monotonic() + 2
while time.monotonic() < until:
    r.step(8)
r.close()
"""


def test_output_to_a_file_is_byte_exact(launch, terminal):
    t = terminal(100, 30)
    t.type(f"{binary()} run --mode cli --run-name r {launch.script(PLAIN)} >out.bin; echo code $?")
    t.wait_for("q quit")
    assert t.covered()
    t.wait_for("code 0")
    assert (launch.folder / "out.bin").read_bytes() == b"".join(b"line %d \x00\xff\r\n" % i for i in range(3))


INTERRUPTED = """
import signal
seen = []
signal.signal(signal.SIGINT, lambda n, f: seen.append(n))
r = FakeRank()
until = time.monotonic() + 60
while time.monotonic() < until and not seen:
    r.step(8)
for _ in range(60): r.step(8)
r.close()
print("seen", seen, flush=True)
"""


def test_ctrl_c_reaches_the_training_once(launch, terminal):
    t = terminal(100, 40)
    modes = t.modes("before")
    t.type(f"{binary()} run --mode cli --run-name r {launch.script(INTERRUPTED)}; echo code $?")
    t.wait_for("Own time per step, ms")
    t.keys("C-c")
    t.wait_for("code 0")
    assert re.search(r"^seen \[2\]$", t.history(), re.M)
    assert launch.summary()["run"]["status"] == "interrupted"
    assert_clean(t, modes)


def test_leaving_the_view_lets_the_output_through(launch, terminal):
    script = """
        r = FakeRank()
        for i in range(400):
            r.step(10)
            if i % 40 == 0: print("line", i, flush=True)
        r.close()
    """
    t = terminal(100, 40)
    t.type(f"{binary()} run --mode cli --run-name r {launch.script(script)}; echo code $?")
    t.wait_for("q quit", "line 40")
    t.keys("q")
    wait_for(lambda: not t.covered(), what="the ordinary screen")
    t.wait_for("line 0", "line 40", "line 80")
    t.wait_for("code 0")
    assert [int(n) for n in re.findall(r"^line (\d+)$", t.history(), re.M)] == list(range(0, 400, 40))


def test_run_in_the_background_and_stopped(launch, terminal):
    t = terminal(100, 40)
    modes = t.modes("before")
    t.type(f"{binary()} run --mode cli --run-name r {launch.script(ENDLESS)} 6; echo code $?")
    t.wait_for("Own time per step, ms")
    t.keys("C-z")
    t.wait_for("Stopped")
    assert_clean(t, modes)
    t.type("fg")
    t.wait_for("q quit")
    t.wait_for("final_summary.txt")
    assert re.search("^train: started\ntrain: done$", t.history(), re.M)
    assert_clean(t, modes)


def test_without_a_terminal_there_are_lines_of_progress(launch):
    process = launch.start("run", "--mode", "cli", "--run-name", "r", launch.script(ENDLESS), "13")
    out, err = process.communicate(timeout=60)
    assert out == b"train: started\ntrain: done\n"
    lines = [line for line in err.decode().split("\n") if re.match(r"stepscope: [\d.]+ s · [\d,]+ steps", line)]
    assert 1 <= len(lines) <= 2 and all("p50 " in line for line in lines), err.decode()


@pytest.mark.slow
def test_the_demo_names_its_straggler_live(launch, terminal):
    """The real thing, with a delay that a busy machine does not hide: two ranks of DDP, the late one found while they train."""
    demo = pathlib.Path(__file__).resolve().parents[2] / "examples" / "demo_straggler.py"
    t = terminal(100, 40)
    modes = t.modes("before")
    torchrun = f"{sys.executable} -m torch.distributed.run --standalone --nproc-per-node 2"
    t.type(f"{binary()} run --mode cli --run-name demo -- {torchrun} {demo} --steps 60 --delay-ms 400; echo code $?")
    t.wait_for("COMPUTE STRAGGLER", "Rank 1 is late in backward", "▸    1", timeout=240)
    t.keys("Enter")
    t.wait_for("Finding 1 of", "Costs", "Why", timeout=20)
    t.keys("Escape")
    t.wait_for("code 0", timeout=240)
    history = t.history()
    assert "loop_s=" in history and history.index("loop_s=") < history.index("stepscope  demo")
    assert (
        json.loads((launch.run_dir("demo") / "final_summary.json").read_text())["primary"]["kind"]
        == "COMPUTE_STRAGGLER"
    )
    assert_clean(t, modes)

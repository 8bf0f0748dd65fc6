"""A real terminal for tests: tmux with a server of its own, driven by keys, looked at as text."""

from __future__ import annotations

import os
import pathlib
import shlex
import shutil
import subprocess
import time

import pytest

needs_tmux = pytest.mark.skipif(not shutil.which("tmux"), reason="no tmux")


class Terminal:
    """One pane that runs an interactive shell; nothing of it outlives close()."""

    def __init__(
        self, folder: pathlib.Path, environment: dict[str, str], columns: int = 80, rows: int = 24, term: str = ""
    ):
        self.socket = str(folder / "tmux.sock")
        config = folder / "tmux.conf"
        config.write_text(
            "set -g status off\nset -g history-limit 20000\nset -g escape-time 0\n"
            'set -g default-terminal "screen-256color"\n'
        )
        env = {k: v for k, v in environment.items() if k not in ("TMUX", "COLORTERM", "NO_COLOR", "TERM")}
        env |= {
            "PS1": "$ ",
            "LANG": "C.UTF-8",
            "LC_ALL": "C.UTF-8",
            "TERM": "xterm-256color",
            "ENV": "",
            "HISTFILE": "",
        }
        shell = ["env", f"TERM={term}"] if term else []
        subprocess.run(
            ["tmux", "-S", self.socket, "-f", str(config), "new-session", "-d", "-x", str(columns), "-y", str(rows),
             "-c", str(folder), *shell, "bash", "--norc", "--noprofile"],
            env=env, check=True,
        )  # fmt: skip
        self.wait_for("$")

    def tmux(self, *words: str) -> str:
        """What tmux prints."""
        done = subprocess.run(
            ["tmux", "-S", self.socket, *words],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "TMUX": ""},
        )
        return done.stdout

    def keys(self, *keys: str) -> None:
        """Key names as tmux has them: "q", "Enter", "C-c", "Down"."""
        self.tmux("send-keys", *keys)

    def type(self, line: str) -> None:
        self.tmux("send-keys", "-l", line)
        self.keys("Enter")

    def run(self, *words: str) -> None:
        self.type(shlex.join(words))

    def screen(self, styles: bool = False) -> str:
        """What is visible now; with `styles` as escape sequences too."""
        return self.tmux("capture-pane", "-p", *(["-e"] if styles else []))

    def history(self) -> str:
        """All that was printed to the ordinary screen, long lines joined."""
        return self.tmux("capture-pane", "-p", "-J", "-S", "-")

    def resize(self, columns: int, rows: int) -> None:
        self.tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def covered(self) -> bool:
        """Whether a program shows the alternate screen."""
        return self.tmux("display-message", "-p", "#{alternate_on}").strip() == "1"

    def cursor_shown(self) -> bool:
        return self.tmux("display-message", "-p", "#{cursor_flag}").strip() == "1"

    def wait_for(self, *texts: str, gone: bool = False, timeout: float = 60) -> str:
        """Waits until all of `texts` are (or none is) visible; returns the screen."""
        deadline = time.monotonic() + timeout
        while True:
            screen = self.screen()
            if (not any(t in screen for t in texts)) if gone else all(t in screen for t in texts):
                return screen
            assert time.monotonic() < deadline, f"{texts} {'stay' if gone else 'do not come'} in\n{screen}"
            time.sleep(0.05)

    def modes(self, mark: str) -> str:
        """The line settings of the terminal, asked from the shell."""
        self.type(f"echo {mark}=$(stty -g)=")
        screen = self.wait_for(f"\n{mark}=")
        return screen.split(f"\n{mark}=")[1].replace("\n", "").split("=")[0]

    def close(self) -> None:
        subprocess.run(["tmux", "-S", self.socket, "kill-server"], check=False, capture_output=True)

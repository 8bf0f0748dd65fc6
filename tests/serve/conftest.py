"""Runs to look at, and servers of them over loopback."""

from __future__ import annotations

import json
import re
import shutil
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "launch"))

from launches import Launch  # noqa: E402

ROOT = HERE.parents[1]
EXAMPLE = ROOT / "tests" / "data" / "run" / "format_1_0.db"
TOKEN = "0123456789abcdef-token"

# Four ranks by hand, as fast as they are told: rank 1 is late now and then.
LIVE = """
    children = []
    for rank in range(4):
        if os.fork() == 0:
            r = FakeRank(rank=rank, world=4)
            end = time.monotonic() + float(sys.argv[1])
            while time.monotonic() < end and not os.path.exists("stop"):
                r.step(20)
            r.close()
            os._exit(0)
    for _ in range(4):
        os.wait()
"""


@dataclass
class Answer:
    status: int
    type: str
    fields: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Site:
    """A server's address and what it answers."""

    def __init__(self, url: str) -> None:
        parts = urllib.parse.urlsplit(url)
        self.url, self.base = url, f"{parts.scheme}://{parts.netloc}"
        self.port = parts.port
        self.token = urllib.parse.parse_qs(parts.query)["token"][0]

    def get(self, path: str, token: bool = True, **fields: str) -> Answer:
        headers = {name.replace("_", "-"): value for name, value in fields.items()}
        if token:
            headers["Authorization"] = f"Bearer {self.token}"
        request = urllib.request.Request(self.base + path, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return Answer(answer.status, answer.headers.get_content_type(), dict(answer.headers), answer.read())
        except urllib.error.HTTPError as error:
            return Answer(error.code, error.headers.get_content_type(), dict(error.headers), error.read())


def url_in(stream: Any) -> str:
    """The address that stepscope prints on stderr."""
    for raw in stream:
        line = raw.decode()
        if found := re.search(r"http://\S+", line):
            return found.group(0)
    raise AssertionError("no address was printed")


def serve(launch: Launch, *words: str, **env: str) -> Site:
    process = launch.start("serve", *words, env={"STEPSCOPE_TOKEN": TOKEN, **env})
    assert process.stderr is not None
    return Site(url_in(process.stderr))


def make_logs(launch: Launch, logs: Path) -> None:
    """A finished run of two ranks, one that left only its steps, one whose summary is rubbish, one that is no run."""
    done = launch.run("run", "--run-name", "finished", "--logs-dir", str(logs), launch.script(LIVE), "1.5")
    assert done.returncode == 0, done.stderr.decode()
    (logs / "only steps").mkdir()
    shutil.copy(EXAMPLE, logs / "only steps" / "run.db")
    (logs / "rubbish").mkdir()
    (logs / "rubbish" / "final_summary.json").write_text('{"run": [')
    (logs / "half").mkdir()
    (logs / "half" / "run.db").write_bytes(EXAMPLE.read_bytes()[:5000])
    (logs / "<b>&amp;").mkdir()
    shutil.copy(logs / "finished" / "final_summary.json", logs / "<b>&amp;" / "final_summary.json")
    (logs / "no run").mkdir()
    (logs / "a file").write_text("")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Path]]:
    folder = tmp_path_factory.mktemp("serve")
    helper = Launch(folder)
    logs = folder / "logs"
    make_logs(helper, logs)
    yield serve(helper, str(logs)), logs
    helper.close()


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Launch]:
    helper = Launch(tmp_path)
    yield helper
    helper.close()

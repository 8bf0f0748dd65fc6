"""Every page of the browser view in chromium: no error, nothing loaded from elsewhere, axe finds nothing, and a live run
changes by itself. The pictures lie in STEPSCOPE_SCREENSHOTS, where that is set."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT, TOKEN, Site
from launches import Launch
from test_live import start, stop

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
WEB = ROOT / "web"
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium here: the pages are not looked at"),
    pytest.mark.skipif(
        not (WEB / "node_modules/playwright-core").is_dir(), reason="no playwright-core: npm ci in web/"
    ),
]


def look(url: str, folder: Path, *words: str) -> list[dict[str, object]]:
    """What tests/look.mjs says of each page."""
    shots = Path(os.environ.get("STEPSCOPE_SCREENSHOTS") or folder)
    shots.mkdir(parents=True, exist_ok=True)
    assert CHROMIUM is not None
    done = subprocess.run(
        ["node", "tests/look.mjs", CHROMIUM, url, str(shots), *words],
        cwd=WEB,
        capture_output=True,
        text=True,
        timeout=300,
    )
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [page for page in told if page["wrong"]] == [], done.stdout
    assert done.returncode == 0, done.stderr
    return told


def test_every_page_of_a_finished_run(served: tuple[Site, Path], tmp_path: Path) -> None:
    url = f"{served[0].base}/?token={TOKEN}"
    told = look(url, tmp_path, "--run", "finished", "--compare", "finished,only steps", "--quick")
    assert {page["page"] for page in told} >= {"runs", "overview", "findings", "ranks", "step", "memory", "compare"}


@pytest.mark.slow
def test_every_page_dark_and_narrow(served: tuple[Site, Path], tmp_path: Path) -> None:
    url = f"{served[0].base}/?token={TOKEN}"
    look(url, tmp_path, "--run", "only steps", "--compare", "only steps,finished")


def test_a_live_run_changes_by_itself(launch: Launch, tmp_path: Path) -> None:
    site = start(launch, seconds=120)
    told = look(site.url, tmp_path, "--run", "r", "--pages", "overview,ranks,system", "--quick", "--live")
    assert told[-1]["page"] == "live" and told[-1]["before"] != told[-1]["after"]
    stop(launch)


def test_who_has_no_token_is_told_so(served: tuple[Site, Path]) -> None:
    answer = served[0].get("/", token=False)
    assert answer.status == 401 and answer.type == "text/html" and b"address that stepscope printed" in answer.body


def test_types_are_strict_and_made_from_the_description() -> None:
    done = subprocess.run(["npm", "run", "-s", "check"], cwd=WEB, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr

"""`stepscope.live()`: in a real kernel, beside a training, and as plain text."""

from __future__ import annotations

import html.parser
import json
import os
import re
import subprocess
import sys
import textwrap

import pytest

from jobs import ROOT

TRAINING = """
    import torch
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(80):
        time.sleep(0.02)
        if step == 70:
            print(view.text)
        model(torch.ones(4, 8)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
"""


class Tags(html.parser.HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.addresses: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, tag, attributes):
        self.seen.add(tag)
        self.addresses += [value for name, value in attributes if name in ("src", "href")]
        if tag != "rect":
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.seen.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture
def notebook(tmp_path, monkeypatch):
    """Runs cells in a kernel of its own and returns them with their outputs."""
    nbformat = pytest.importorskip("nbformat")
    client = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    for name in [n for n in os.environ if n.startswith("STEPSCOPE_")]:
        monkeypatch.delenv(name)

    def run(*cells: str):
        made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(textwrap.dedent(cell)) for cell in cells])
        client.NotebookClient(
            made, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
        ).execute()
        return made.cells

    return run


def plain(launch, program: str) -> str:
    """What a Python that is not observed prints in the folder."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("STEPSCOPE_")}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=launch.folder, env=env, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def shown(cell) -> dict:
    (output,) = [o for o in cell.outputs if o.output_type in ("display_data", "execute_result")]
    return output["data"]


def steps_in(text: str) -> int:
    found = re.search(r"([\d,]+) steps", text)
    return int(found[1].replace(",", "")) if found else -1


@pytest.mark.slow
def test_a_notebook_sees_its_own_training(notebook):
    cells = notebook(
        "import stepscope, time\nview = stepscope.live(every_s=0.3)",
        TRAINING,
        "time.sleep(1)\nprint(view.going_on)\nview",
        "view.stop()\nprint(view.going_on)",
    )
    assert 20 < steps_in(cells[1].outputs[0]["text"]) <= 71  # while the cell runs
    data = shown(cells[0])  # renewed in its place by the thread while the second cell ran
    assert steps_in(data["text/plain"]) in (79, 80) and steps_in(data["text/html"]) in (79, 80)
    assert "as of" in data["text/plain"] and len(data["text/html"]) < 40_000
    assert cells[2].outputs[0]["text"] == "True\n" and steps_in(shown(cells[2])["text/html"]) in (79, 80)
    assert cells[3].outputs[0]["text"] == "False\n"
    tags = Tags(data["text/html"])
    assert "script" not in tags.seen and not tags.addresses


@pytest.mark.slow
def test_the_guide_does_what_it_says(notebook):
    text = (ROOT / "docs/guides/notebooks.md").read_text()
    cells = notebook(*re.findall(r"^```python\n(.*?)^```", text, re.M | re.S))
    assert len(cells) == 4
    assert steps_in(shown(cells[0])["text/html"]) in (119, 120)
    assert steps_in(cells[2].outputs[-1]["text"]) in (119, 120)
    assert "no run of this name" in shown(cells[3])["text/plain"]


@pytest.mark.slow
def test_at_the_end_of_a_cell_it_is_shown_once(notebook):
    cells = notebook("import stepscope\nstepscope.live()", "stepscope.live('no-such-run')")
    assert "0 steps" in shown(cells[0])["text/plain"] or "no answer" in shown(cells[0])["text/plain"]
    assert shown(cells[1])["text/plain"].startswith("stepscope: no run of this name")


def test_beside_a_training_it_is_told_by_name_and_folder(launch):
    script = launch.script(
        """
        import subprocess
        r = FakeRank()
        [r.step(2) for _ in range(30)]
        time.sleep(0.3)
        ask = "import stepscope, sys; print(stepscope.live(sys.argv[1]))"
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("STEPSCOPE_", "RANK"))}
        for run in ("watched", "logs/watched"):
            print(subprocess.run([sys.executable, "-c", ask, run], env=clean, capture_output=True, text=True).stdout)
        r.close()
        """
    )
    result = launch.run("run", "--run-name", "watched", script)
    text = result.stdout.decode()
    assert text.count("watched · ") == 2 and len(re.findall(r"(29|30) steps .* running", text)) == 2, text
    assert "as of" in text
    over = plain(launch, "import stepscope; v = stepscope.live('logs/watched'); print(v); print(v.going_on)")
    assert "completed" in over and "as of" not in over and over.strip().endswith("False")


def test_what_a_run_is_called_is_no_markup():
    from stepscope import _live

    summary = json.loads('{"run": {"name": "<b>&", "status": "running", "world_size": 1}}')
    summary["primary"] = {"id": "f1", "kind": "INPUT_BOUND", "title": "<script>alert(1)</script>", "severity": "crit"}
    summary["ledger"] = {"job": {"forward": 3, "<i>": 1}}
    text = _live.html_of(summary, "<note>")
    assert "&lt;script&gt;" in text and not {"script", "b>&", "i", "note"} & Tags(text).seen - {"b"}
    assert "INPUT BOUND: <script>" in _live.text_of(summary, "")


@pytest.mark.parametrize("summary", [{}, {"run": {}}, {"steps": {"recent": [{}]}}, {"primary": {}}, {"ledger": None}])
def test_a_summary_that_lacks_everything_is_shown(summary):
    from stepscope import _live

    Tags(_live.html_of(summary, ""))
    assert _live.text_of(summary, "")


def test_without_an_agent_it_says_so(launch):
    text = plain(launch, "import stepscope; print(stepscope.live('nowhere'))")
    assert text.strip() == "stepscope: no run of this name goes on here, and no summary is in this folder"

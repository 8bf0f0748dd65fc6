"""``stepscope.live()``: a notebook looks on while its own training, or another run of this machine, goes on."""

from __future__ import annotations

import glob
import json
import os
import threading
import time
from html import escape
from pathlib import Path
from typing import Any

from stepscope import _summary

_LEAST_EVERY_S = 0.2
_ANSWER_WAIT_S = 5.0
_MOST_FINDINGS = 5
_MOST_BARS = 160
_SHM = "/dev/shm"

# Of the visual language of all views: own work in blues, waiting in rose, transfer in violet, pauses in orange.
_COLOURS = {
    "input_wait": "#d9a441",
    "h2d": "#b98a2e",
    "forward": "#7fb2e5",
    "backward": "#2f6fb3",
    "optimizer": "#b7cfe6",
    "comm_transfer": "#8a6fc0",
    "straggler_wait": "#d9738f",
    "host_pause": "#e08a4f",
}
_GREY = "#9aa0a6"
_EDGES = {"crit": "#c5443c", "warn": "#c98a1b"}
_LABELS = {"h2d": "host to device", "comm_transfer": "communication", "user_code": "your code"}


class Live:
    """What ``live()`` shows: it renews itself in the place where it was shown until the run ends or ``stop()``.

    ``str()`` is the plain text of it. ``html`` is what a notebook shows; nothing in it is loaded from elsewhere and no
    script runs, so that it stays in the saved notebook as it last was.
    """

    def __init__(self, run_dir: str | os.PathLike[str] | None = None, every_s: float = 2.0) -> None:
        self._run = None if run_dir is None else os.fspath(run_dir)
        self._every_s = max(_LEAST_EVERY_S, float(every_s))
        self._stop = threading.Event()
        self._handle: Any = None
        self._cell: Any = None
        self._thread: threading.Thread | None = None
        self._summary: dict[str, Any] | None = None
        self._answered = 0.0  # time.time() of the newest answer
        self._trouble = ""

    @property
    def going_on(self) -> bool:
        """Whether it renews itself."""
        return self._thread is not None and self._thread.is_alive() and not self._stop.is_set()

    def refresh(self) -> bool:
        """Asks once, now. True when there was an answer. Waits at most 5 s; never raises."""
        try:
            found = _summary_of(self._run)
            self._trouble = "" if found else _reason(self._run)
        except (OSError, ValueError) as error:
            found, self._trouble = None, f"the summary cannot be read: {error}"
        if found is None:
            return False
        self._summary, self._answered = found, time.time()
        return True

    def stop(self) -> None:
        """It renews itself no more; what was shown stays."""
        self._stop.set()

    @property
    def text(self) -> str:
        return text_of(self._summary, self._note())

    @property
    def html(self) -> str:
        return html_of(self._summary, self._note())

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return self.html

    def _ipython_display_(self) -> None:
        shell = _notebook()
        if shell is None:
            print(self.text)
        elif self._cell != shell.execution_count:  # `live()` at the end of a cell has been shown there already
            self._show(shell)

    def _show(self, shell: Any) -> None:
        from IPython.display import display

        show: Any = display  # untyped in some versions
        self._cell = shell.execution_count
        self._handle = show(self._bundle(), raw=True, display_id=True)
        if self._thread is None and not self._over():
            self._thread = threading.Thread(target=self._renew, name="stepscope-live", daemon=True)
            self._thread.start()

    def _renew(self) -> None:
        shown = self._body()
        while not self._stop.wait(self._every_s):
            try:
                self.refresh()
                if (body := self._body()) != shown:
                    shown = body
                    self._handle.update(self._bundle(), raw=True)
                if self._over():
                    return
            except Exception as error:  # of the notebook's side: it is gone, or it cannot take it
                self._trouble = f"the display cannot be renewed: {error}"
                return

    def _body(self) -> tuple[str, str]:
        """What makes a renewal worth while: all but the time of it."""
        return html_of(self._summary, ""), self._trouble

    def _bundle(self) -> dict[str, str]:
        return {"text/html": self.html, "text/plain": self.text}

    def _over(self) -> bool:
        return self._summary is not None and self._summary.get("run", {}).get("status") != "running"

    def _note(self) -> str:
        if self._summary is None or self._over():
            return self._trouble
        when = time.strftime("%H:%M:%S", time.localtime(self._answered))
        return f"as of {when}" if not self._trouble else f"no answer since {when}: {self._trouble}"


def live(run_dir: str | os.PathLike[str] | None = None, every_s: float = 2.0) -> Live:
    """Shows how a run is doing, in a notebook, and renews that every ``every_s`` seconds while cells run.

    Without ``run_dir``: the run of this process, which is observed from now on where ``init()`` was not called before.
    Else a run's folder or the name of one that goes on on this machine. Call it before the loop, in the same cell or an
    earlier one::

        import stepscope
        stepscope.live()

    The verdict, what it costs, where the time goes, the newest steps; a few kB of HTML without scripts, and plain text
    where HTML is not shown. No widgets are needed. A thread of this process asks the agent and sleeps in between: about
    3 ms each time. Outside of a notebook nothing renews itself; ``print(stepscope.live())`` is the state at that moment.
    Never raises.
    """
    if run_dir is None and not os.environ.get("STEPSCOPE_SHM"):
        from stepscope._api import init

        init()
    shown = Live(run_dir, every_s)
    shown.refresh()
    shell = _notebook()
    if shell is not None:
        try:
            shown._show(shell)
        except Exception as error:
            shown._trouble = f"the notebook cannot show it: {error}"
    return shown


def _notebook() -> Any:
    """IPython's shell where it has a front end that takes HTML; None in a terminal and in plain Python."""
    import sys

    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    return shell if hasattr(shell, "kernel") else None


def _summary_of(run: str | None) -> dict[str, Any] | None:
    if run is None:
        return _summary.summary(timeout_s=_ANSWER_WAIT_S)
    found = _summary.final_summary(run)
    if found is not None:
        return found
    folder = _shared_folder(run)
    return _summary._asked(folder, _ANSWER_WAIT_S) if folder is not None else None


def _shared_folder(run: str) -> Path | None:
    """Of a run that goes on, by its folder or its name. The newest where several have the name."""
    wanted = os.path.realpath(run)
    found: list[tuple[int, Path]] = []
    for path in glob.glob(f"{_SHM}/stepscope-{os.getuid()}-*/run.json"):
        try:
            if os.stat(path).st_uid != os.getuid():
                continue
            told = json.loads(Path(path).read_text(encoding="utf-8"))
            folder, name, begin = told["run_dir"], told["name"], int(told["started_ns"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if name == run or (folder and os.path.realpath(folder) == wanted):
            found.append((begin, Path(path).parent))
    return max(found)[1] if found else None


def _reason(run: str | None) -> str:
    if run is not None:
        return "no run of this name goes on here, and no summary is in this folder"
    return "no answer from the agent" if os.environ.get("STEPSCOPE_SHM") else "this process is not observed"


# --- what is shown ---


def _ms(value: Any) -> str:
    if not isinstance(value, (int, float)):
        return "–"
    return f"{value / 1e3:.3g} s" if value >= 1e4 else f"{value:.3g} ms"


def _share(value: Any) -> str:
    return f"{100 * value:.0f} %" if isinstance(value, (int, float)) else "–"


def _kind(finding: dict[str, Any]) -> str:
    return str(finding.get("kind", "")).replace("_", " ")


def _label(category: str) -> str:
    return _LABELS.get(category, category.replace("_", " "))


def _facts(summary: dict[str, Any]) -> list[str]:
    run, steps = summary.get("run", {}), summary.get("steps", {})
    wall = steps.get("wall_ms", {})
    world = run.get("world_size") or 1
    facts = [f"{world} rank{'s' if world != 1 else ''}", f"{steps.get('count', 0):,} steps"]
    if wall.get("p50") is not None:
        facts.append(f"{_ms(wall['p50'])} a step (p99 {_ms(wall.get('p99'))})")
    for name, unit in (("samples_per_s", "samples/s"), ("tokens_per_s", "tokens/s")):
        value = (summary.get("throughput") or {}).get(name)
        if isinstance(value, (int, float)):
            facts.append(f"{value:,.0f} {unit}")
    return [*facts, str(run.get("status", ""))]


def _findings(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """Beside the primary one, those that are more than information."""
    primary = (summary.get("primary") or {}).get("id")
    said = [f for f in summary.get("findings", []) if f.get("id") != primary and f.get("severity") != "info"]
    return said[:_MOST_FINDINGS]


def _verdict(summary: dict[str, Any]) -> tuple[str, str, str, str]:
    """Word, sentence, cost and action of the primary finding."""
    primary = summary.get("primary")
    if not primary:
        return "", "No verdict yet", "", ""
    cost = (primary.get("cost") or {}).get("share")
    saves = primary.get("saves") or {}
    costs = f"costs {_share(cost)} of the time" if cost else ""
    if costs and saves.get("low") is not None and saves.get("high"):
        costs += f"; fixing it saves {_share(saves['low'])} to {_share(saves['high'])}"
    return _kind(primary), str(primary.get("title", "")), costs, str(primary.get("action") or "")


def _ledger(summary: dict[str, Any]) -> list[tuple[str, float]]:
    """Shares of the job's time per category, in ledger order, without those below half a percent."""
    job = (summary.get("ledger") or {}).get("job") or {}
    known = {name: value for name, value in job.items() if isinstance(value, (int, float)) and value > 0}
    total = sum(known.values())
    return [(name, value / total) for name, value in known.items() if value / total >= 0.005] if total else []


def _walls(summary: dict[str, Any]) -> list[float]:
    walls = [row.get("wall_ms") for row in (summary.get("steps") or {}).get("recent") or []]
    return [float(w) for w in walls if isinstance(w, (int, float))][-_MOST_BARS:]


def text_of(summary: dict[str, Any] | None, note: str) -> str:
    if summary is None:
        return f"stepscope: {note or 'no answer yet'}"
    word, sentence, costs, action = _verdict(summary)
    lines = [f"{summary.get('run', {}).get('name', '')} · " + " · ".join(_facts(summary))]
    lines.append(f"{word}: {sentence}" if word else sentence)
    lines += [f"  {line}" for line in (costs, action) if line]
    ledger = _ledger(summary)
    if ledger:
        lines.append("time: " + " · ".join(f"{_label(name)} {_share(share)}" for name, share in ledger))
    lines += [f"also {_kind(f)}: {f.get('title', '')}" for f in _findings(summary)]
    return "\n".join([*lines, *([f"({note})"] if note else [])])


def html_of(summary: dict[str, Any] | None, note: str) -> str:
    """Colours that are read on light and on dark: text takes the notebook's own."""
    if summary is None:
        return f"<div>stepscope: {escape(note or 'no answer yet')}</div>"
    word, sentence, costs, action = _verdict(summary)
    edge = _EDGES.get((summary.get("primary") or {}).get("severity", ""), _GREY)
    soft = "style='opacity:.75'"
    parts = [
        f"<div {soft}><b>{escape(str(summary.get('run', {}).get('name', '')))}</b> · "
        + " · ".join(escape(fact) for fact in _facts(summary))
        + "</div>",
        f"<div style='font-size:1.15em;margin:.3em 0'>{f'<b>{escape(word)}</b> ' if word else ''}{escape(sentence)}</div>",
    ]
    parts += [f"<div>{escape(line)}</div>" for line in (costs, action) if line]
    parts.append(_bar(_ledger(summary)))
    parts.append(_steps(_walls(summary)))
    parts += [f"<div>{escape(_kind(f))}: {escape(str(f.get('title', '')))}</div>" for f in _findings(summary)]
    if note:
        parts.append(f"<div {soft}>{escape(note)}</div>")
    return (
        f"<div style='border-left:4px solid {edge};padding:.2em .8em;max-width:60em;"
        f"font-family:system-ui,sans-serif;font-variant-numeric:tabular-nums'>{''.join(parts)}</div>"
    )


def _bar(ledger: list[tuple[str, float]]) -> str:
    if not ledger:
        return ""
    pieces = "".join(
        f"<div title='{escape(_label(name))} {_share(share)}' "
        f"style='width:{100 * share:.2f}%;background:{_COLOURS.get(name, _GREY)}'></div>"
        for name, share in ledger
    )
    legend = " ".join(
        f"<span style='white-space:nowrap;margin-right:.8em'><span style='display:inline-block;width:.7em;height:.7em;"
        f"background:{_COLOURS.get(name, _GREY)}'></span> {escape(_label(name))} {_share(share)}</span>"
        for name, share in ledger
    )
    row = "style='display:flex;height:1em;margin:.4em 0' role='img' aria-label='where the time goes'"
    return f"<div {row}>{pieces}</div><div>{legend}</div>"


def _steps(walls: list[float]) -> str:
    """The newest steps as bars; the scale is named, and what is above it is cut."""
    if len(walls) < 2:
        return ""
    top = 1.25 * sorted(walls)[int(0.98 * (len(walls) - 1))]
    width = 4
    bars = "".join(
        f"<rect x='{i * width}' y='{40 - h:.1f}' width='{width - 1}' height='{h:.1f}'/>"
        for i, h in ((i, 40 * min(1.0, wall / top) if top > 0 else 0.0) for i, wall in enumerate(walls))
    )
    return (
        f"<svg viewBox='0 0 {len(walls) * width} 40' preserveAspectRatio='none' fill='{_COLOURS['backward']}' role='img' "
        f"aria-label='newest steps' style='width:100%;height:40px;margin-top:.4em'>{bars}</svg>"
        f"<div style='opacity:.75'>newest {len(walls)} steps, {_ms(min(walls))} to {_ms(max(walls))}</div>"
    )

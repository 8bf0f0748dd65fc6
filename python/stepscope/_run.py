"""``stepscope.Run``: what a run's file holds, as tables that pyarrow, pandas, polars and duckdb open without copies."""

from __future__ import annotations

import json
import os
from typing import Any

from stepscope import _run_tables
from stepscope._run_tables import RunError as RunError

_SHOWN = 8  # columns of a table in its repr()
_SHOWN_ROWS = 20  # in a notebook


def _html(columns: list[str], rows: list[dict[str, Any]], more: bool) -> str:
    """Without the columns in which nothing stands, and without those for programs."""
    from html import escape

    told = [name for name in columns if name != "json" and any(row[name] is not None for row in rows)]

    def cell(value: object) -> str:
        if value is None:
            return "<td>–</td>"
        text = f"{value:,.6g}" if isinstance(value, float) else str(value)
        return f"<td style='text-align:{'left' if isinstance(value, str) else 'right'}'>{escape(text)}</td>"

    head = "".join(f"<th>{escape(name)}</th>" for name in told)
    body = "".join(f"<tr>{''.join(cell(row[name]) for name in told)}</tr>" for row in rows)
    rest = "<p>… and more rows</p>" if more else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"


class Table:
    """One table of a run, to be opened by whatever knows the Arrow PyCapsule interface.

    ``pyarrow.table(t)``, ``polars.DataFrame(t)``, ``duckdb.sql("SELECT … FROM t")``, ``pyarrow.table(t).to_pandas()``.
    Each opening reads the file anew, in batches of at most 65,536 rows, as the consumer asks for them. Units stand last
    in the names of columns and as ``unit`` in the fields' metadata. A missing value is null, never 0.
    """

    def __init__(self, file: _run_tables.RunFile, path: str, name: str) -> None:
        self._file, self._path, self._name = file, path, name

    @property
    def name(self) -> str:
        """As ``stepscope export --table`` takes it."""
        return self._name

    @property
    def units(self) -> dict[str, str]:
        """The table's columns and their units; ``""``: none."""
        return _run_tables.columns(self._name)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """An ``arrow_array_stream`` capsule. The schema is the table's own, whatever is requested. Raises RunError."""
        return self._file.stream(self._name)

    def __arrow_c_schema__(self) -> object:
        """An ``arrow_schema`` capsule. Raises RunError."""
        return self._file.schema(self._name)

    def _repr_html_(self) -> str | None:
        """The first rows, in a notebook; None (its ``repr()`` is shown then) without pyarrow."""
        try:
            import pyarrow
        except ImportError:
            return None
        rows: list[dict[str, Any]] = []
        more = False
        for batch in pyarrow.RecordBatchReader.from_stream(self):
            rows += batch.slice(0, _SHOWN_ROWS + 1 - len(rows)).to_pylist()
            if len(rows) > _SHOWN_ROWS:
                more = True
                break
        return _html(list(self.units), rows[:_SHOWN_ROWS], more)

    def __repr__(self) -> str:
        names = list(self.units)
        shown = ", ".join(names[:_SHOWN]) + (f", … ({len(names)} columns)" if len(names) > _SHOWN else "")
        return f"<stepscope table {self._name} of {self._path}: {shown}>"


class Run:
    """A run that is over, that goes on, or whose writer was killed, by its folder or its ``run.db``.

    ``steps``, ``ledger``, ``collectives``, ``samples``, ``findings``, ``ranks``, ``groups`` and ``events`` are tables
    (`Table`); docs/formats/run_file.md says what their columns are. Properties tell what the file says at the moment.

    Raises RunError, with one line that names the file, where there is none or it cannot be read; where a part of it is
    damaged, the rest is read and ``damaged`` counts what was left out.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        path = os.fsdecode(path)
        self._path = os.path.join(path, "run.db") if os.path.isdir(path) else path
        self._file = _run_tables.RunFile(self._path)

    def table(self, name: str) -> Table:
        """A table by its name. Raises RunError for a name that there is not."""
        _run_tables.columns(name)
        return Table(self._file, self._path, name)

    @property
    def steps(self) -> Table:
        """One row per step and rank that was seen in it, by attempt, step and rank: every metric that is kept.

        Categories of the ledger and ``rest_ms`` add up to ``wall_ms``. Of a long run old steps are thinned out: a row
        then stands for ``stride`` steps. ``at_s`` is seconds since the run's start, at the end of the step.
        """
        return self.table("steps")

    @property
    def ledger(self) -> Table:
        """Time per attempt, rank and category, summed over all steps, thinned ones included (``total_ms``)."""
        return self.table("ledger")

    @property
    def collectives(self) -> Table:
        """Operations by process group, as the newest summary in the file has them: times in ms, sizes in bytes."""
        return self.table("collectives")

    @property
    def samples(self) -> Table:
        """What was sampled of hosts, processes and devices; the unit of a value stands last in its ``name``."""
        return self.table("samples")

    @property
    def findings(self) -> Table:
        """What the rules said, from ``opened_step`` to ``closed_step`` (null: to the end); costs as share and in s."""
        return self.table("findings")

    @property
    def ranks(self) -> Table:
        """One row per attempt and rank: where its process ran, how it ended; times in s since the run's start."""
        return self.table("ranks")

    @property
    def groups(self) -> Table:
        """Process groups and their ranks."""
        return self.table("groups")

    @property
    def events(self) -> Table:
        """What happened when, in s since the run's start."""
        return self.table("events")

    @property
    def path(self) -> str:
        """Of the ``run.db``."""
        return self._path

    @property
    def name(self) -> str:
        """Of the run."""
        return str(self._file.run()["name"])

    @property
    def status(self) -> str:
        """``running`` until the run said how it ended: completed, failed, interrupted."""
        return str(self._file.run()["status"])

    @property
    def info(self) -> dict[str, Any]:
        """Name, status, started_at, duration_s, world_size, nodes, attempts, exit_code (None: not known), command,
        versions."""
        return self._file.run()

    @property
    def summary(self) -> dict[str, Any] | None:
        """The newest summary in the file, in the form of ``final_summary.json``. None: the run has written none yet."""
        text = self._file.summary()
        parsed = json.loads(text) if text else None
        return parsed if isinstance(parsed, dict) else None

    @property
    def verdict(self) -> str | None:
        """The summary's sentence on the job: of its primary finding, else of the step times. None without a summary."""
        summary = self.summary
        if summary is None:
            return None
        told = (summary.get("primary") or {}).get("title") or summary.get("sections", {}).get("step_time", {}).get(
            "text"
        )
        return told if isinstance(told, str) else None

    @property
    def damaged(self) -> int:
        """Damaged pieces of the file that were left out of what was read by this object so far."""
        return self._file.damage()[0]

    @property
    def damage(self) -> str | None:
        """What was wrong with the first of them."""
        return self._file.damage()[1] or None

    def __repr__(self) -> str:
        about = self._file.run()
        ranks = f"{about['world_size']} rank{'s' if about['world_size'] != 1 else ''}"
        return f"<stepscope run {about['name']}: {about['status']}, {ranks}, {about['duration_s']:.1f} s, {self._path}>"

"""`stepscope.Run` and `stepscope export`: tables of a run file in pyarrow, pandas, polars, duckdb and in files."""

from __future__ import annotations

import ast
import csv
import json
import pathlib
import re
import shlex
import sqlite3
import statistics
import subprocess
import sys
import time
from typing import Any

import pytest
from launches import Launch, refused

import stepscope
from document_examples import console_examples, trimmed
from run_file import read_metric, write_example

pa = pytest.importorskip("pyarrow")

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs/formats/run_file.md"
TABLES = ["steps", "ledger", "collectives", "samples", "findings", "ranks", "groups", "events"]
CATEGORIES = re.findall(
    r'"([a-z0-9_]+)"', (ROOT / "src/align/category.h").read_text().partition("kCategoryNames = {")[2].partition("};")[0]
)


@pytest.fixture(scope="module", name="example")
def fixture_example(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Its run.db: 3,000 steps of 4 ranks."""
    folder = tmp_path_factory.mktemp("export") / "logs" / "example"
    folder.mkdir(parents=True)
    write_example(folder / "run.db")
    return folder / "run.db"


@pytest.fixture(name="ran")
def fixture_ran(launch: Launch) -> Launch:
    """A run of one process that plays a rank: 60 steps."""
    script = launch.script("r = FakeRank()\n[r.step(2) for _ in range(60)]\nr.close()")
    assert launch.run("run", "--run-name", "r", script).returncode == 0
    return launch


def table(source: Any) -> Any:
    read = pa.table(source)
    read.validate(full=True)
    return read


def test_a_notebook_shows_the_first_rows(example: pathlib.Path) -> None:
    run = stepscope.Run(example)
    shown = run.steps._repr_html_()
    assert shown is not None and shown.count("<tr>") == 21 and "more rows" in shown
    findings = run.findings._repr_html_()
    assert findings is not None and "<th>title</th>" in findings and "<th>json</th>" not in findings
    assert "more rows" not in findings


def test_a_table_is_what_the_file_holds(example: pathlib.Path) -> None:
    """Against a second decoder, written from the format's page."""
    steps = table(stepscope.Run(example).steps)
    assert steps.num_rows == 12_000
    assert steps["step"].to_pylist()[::4] == list(range(3000)) and steps["rank"].to_pylist()[:5] == [0, 1, 2, 3, 0]
    db = sqlite3.connect(f"file:{example}?mode=ro", uri=True)
    numbers = dict(db.execute("SELECT name, id FROM metric"))
    for metric in ("input_wait", "forward", "backward", "straggler_wait", "caused"):
        for rank, ns in enumerate(read_metric(db, numbers[metric])):
            got = steps[f"{metric}_ms"].to_pylist()[rank::4]
            assert got == pytest.approx([value * 1e-6 for value in ns], rel=1e-12), metric


def test_categories_add_up_to_wall_time(example: pathlib.Path) -> None:
    rows = table(stepscope.Run(example).steps).to_pylist()
    for row in rows[::97]:
        assert sum(row[f"{c}_ms"] for c in CATEGORIES) + row["rest_ms"] == pytest.approx(row["wall_ms"], rel=1e-12)


def test_medians_are_those_of_the_file(example: pathlib.Path) -> None:
    """step_wall keeps the newest steps one by one, in whole microseconds."""
    rows = table(stepscope.Run(example).steps).to_pylist()
    walls: dict[int, list[float]] = {}
    for row in rows:
        walls.setdefault(row["step"], []).append(row["wall_ms"])
    db = sqlite3.connect(f"file:{example}?mode=ro", uri=True)
    lines = db.execute("SELECT step, wall_ms_p50, wall_ms_max FROM step_summary WHERE stride = 1").fetchall()
    assert len(lines) >= 512
    for step, median_ms, most_ms in lines:
        assert max(walls[step]) == pytest.approx(most_ms, abs=2e-3)
        low, high = statistics.median_low(walls[step]), statistics.median_high(walls[step])
        assert low - 2e-3 <= median_ms <= high + 2e-3


def test_types_and_units_stand_in_the_schema(example: pathlib.Path) -> None:
    run = stepscope.Run(example)
    for name in TABLES:
        source = run.table(name)
        schema = table(source).schema
        assert schema == pa.schema(source) and schema.metadata[b"table"] == name.encode()
        assert schema.metadata[b"run"] == b"example" and list(source.units) == schema.names
        for field in schema:
            unit = (field.metadata or {}).get(b"unit", b"").decode()
            assert unit == source.units[field.name]
            if field.name.endswith(("_ms", "_bytes", "_s")) and not field.name.endswith("_per_s"):
                assert unit == field.name.rpartition("_")[2], field.name
    steps = pa.schema(run.steps)
    assert steps.field("backward_ms").type == pa.float64() and steps.field("step").type == pa.int64()
    assert steps.field("signature").type == pa.uint64() and steps.field("gpu").type == pa.bool_()
    assert "4 checkpoint" in steps.field("tags").metadata[b"bits"].decode()
    assert pa.schema(run.findings).field("ranks").type.value_type == pa.int32()


def test_what_is_not_known_is_null(example: pathlib.Path) -> None:
    steps = table(stepscope.Run(example).steps)
    for name in ("epoch", "peak_bytes", "device_comm_ms", "host_forward_ms", "launching_forward_ms"):
        assert steps[name].null_count == steps.num_rows, name
    assert steps["loss"].null_count == 0 and 0 < steps["loss"][0].as_py() < 10
    waited = steps["waited_for_rank"].to_pylist()
    assert waited[0] == 1 and waited[1] is None


def test_the_ledger_is_the_sum_of_the_steps(example: pathlib.Path) -> None:
    run = stepscope.Run(example)
    steps = table(run.steps).to_pylist()
    ledger = table(run.ledger).to_pylist()
    assert len(ledger) == 4 * len(CATEGORIES) and {line["steps"] for line in ledger} == {3000}
    for line in ledger:
        total_ms = sum(row[f"{line['category']}_ms"] for row in steps if row["rank"] == line["rank"])
        assert line["total_ms"] == pytest.approx(total_ms, rel=1e-9), line
    for rank in range(4):
        assert sum(line["share"] for line in ledger if line["rank"] == rank) == pytest.approx(1)


def test_facts(example: pathlib.Path) -> None:
    run = stepscope.Run(example)
    findings = table(run.findings).to_pylist()
    assert [f["kind"] for f in findings] == ["COMPUTE_STRAGGLER", "COMPUTE_BOUND"]
    straggler = findings[0]
    assert straggler["ranks"] == [1] and straggler["victims"] == [0, 2, 3] and straggler["closed_step"] is None
    ranks = table(run.ranks).to_pylist()
    assert [(r["rank"], r["state"], r["steps"], r["exit_code"]) for r in ranks] == [
        (i, "finished", 3000, 0) for i in range(4)
    ]
    samples = table(run.samples).to_pylist()
    assert len(samples) == 120 and {(s["scope"], s["idx"], s["name"]) for s in samples} == {("rank", 1, "rss_bytes")}
    events = table(run.events).to_pylist()
    assert [(e["kind"], e["step"], e["at_s"]) for e in events] == [("attempt", None, 0), ("checkpoint", 499, 40)]
    assert table(run.groups).to_pylist()[0]["ranks"] == [0, 1, 2, 3]


def test_the_run_itself(example: pathlib.Path) -> None:
    run = stepscope.Run(example.parent)
    assert (run.name, run.status, run.path) == ("example", "completed", str(example))
    assert run.info["world_size"] == 4 and run.info["command"][0] == "torchrun" and run.info["exit_code"] == 0
    assert run.summary == {"schema_version": "1.0", "run": {"name": "example"}}
    assert run.verdict is None and run.damaged == 0 and run.damage is None
    assert repr(run) == f"<stepscope run example: completed, 4 ranks, 180.0 s, {example}>"
    assert repr(run.steps).endswith(" columns)>") and repr(run.steps).count(",") == 8
    assert repr(run.groups) == f"<stepscope table groups of {example}: attempt, group_id, description, ranks>"


def test_a_stream_may_be_dropped_and_opened_again(example: pathlib.Path) -> None:
    source = stepscope.Run(example).steps
    reader = pa.RecordBatchReader.from_stream(source)
    batch = reader.read_next_batch()
    del reader
    assert batch.num_rows == 12_000 and batch["step"][-1].as_py() == 2999
    assert table(source).equals(table(source))
    source.__arrow_c_stream__()  # a capsule that nobody takes over


def test_pandas(example: pathlib.Path) -> None:
    pytest.importorskip("pandas")
    frame = table(stepscope.Run(example).steps).to_pandas()
    medians = frame.groupby("rank")["backward_ms"].median()
    assert len(frame) == 12_000 and medians.idxmax() == 1


def test_polars(example: pathlib.Path) -> None:
    polars = pytest.importorskip("polars")
    run = stepscope.Run(example)
    for name in TABLES:
        frame = polars.DataFrame(run.table(name))
        assert frame.to_arrow().num_rows == table(run.table(name)).num_rows, name
    steps = polars.DataFrame(run.steps)
    assert steps.equals(polars.from_arrow(table(run.steps)))
    assert polars.DataFrame(run.ledger)["category"].unique().len() == len(CATEGORIES)


def test_duckdb(example: pathlib.Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    run = stepscope.Run(example)
    steps, ledger = run.steps, run.ledger
    assert repr(steps) and repr(ledger)  # found by name, below
    assert duckdb.sql("SELECT count(*), max(step) FROM steps").fetchall() == [(12_000, 2999)]
    slow = duckdb.sql("SELECT rank FROM steps GROUP BY rank ORDER BY median(backward_ms) DESC LIMIT 1").fetchall()
    assert slow == [(1,)]
    both = "SELECT count(*) FROM ledger JOIN (SELECT DISTINCT rank FROM steps) USING (rank) WHERE category = 'forward'"
    assert duckdb.sql(both).fetchall() == [(4,)]


def test_figures_are_those_of_summary_and_inspect(ran: Launch) -> None:
    run, summary = stepscope.Run(ran.run_dir()), ran.summary()
    assert run.summary == summary
    assert run.verdict in (f["title"] for f in summary["findings"]) or summary["primary"] is None
    steps = table(run.steps)
    inspected = [json.loads(line) for line in ran.run("inspect", "logs/r/run.db").stdout.splitlines()]
    about = next(line for line in inspected if "rows" in line)
    assert steps.num_rows == about["cells"] == summary["steps"]["count"] == 60
    job = summary["ledger"]["job"]
    for line in table(run.ledger).to_pylist():
        assert line["total_ms"] == pytest.approx(job[line["category"]]["ms"], rel=1e-3, abs=1e-2), line
    collectives = table(run.collectives).to_pylist()
    assert [c["op"] for c in collectives] == [c["op"] for c in summary["collectives"]]
    recent = {step["step"]: step["wall_ms"] for step in summary["steps"]["recent"]}
    for row in steps.to_pylist():
        if row["step"] in recent:
            assert row["wall_ms"] == pytest.approx(recent[row["step"]], rel=1e-3)


def test_a_run_that_goes_on(launch: Launch) -> None:
    script = launch.script("r = FakeRank()\nwhile not os.path.exists('stop'): r.step(2)\nr.close()")
    process = launch.start("run", "--run-name", "r", script)
    path, rows, deadline = launch.run_dir() / "run.db", 0, time.monotonic() + 40
    while rows < 64 and time.monotonic() < deadline:
        time.sleep(0.1)
        try:
            run = stepscope.Run(path)
            rows = table(run.steps).num_rows
        except stepscope.RunError:
            continue  # not there yet
    assert rows >= 64 and run.status == "running"
    (launch.folder / "stop").touch()
    process.communicate(timeout=60)
    after = table(run.steps)
    assert run.status == "completed" and after.num_rows > rows
    assert after["step"].to_pylist() == list(range(after.num_rows))


def test_what_is_no_run_is_refused_in_one_line(launch: Launch) -> None:
    (launch.folder / "empty").mkdir()
    (launch.folder / "text.db").write_text("no database, but long enough to be taken for one " * 40)
    sqlite3.connect(launch.folder / "other.db").execute("CREATE TABLE t(x)").connection.commit()
    for name in ("nothere", "empty", "text.db", "other.db"):
        path = launch.folder / name
        with pytest.raises(stepscope.RunError) as raised:
            stepscope.Run(path)
        assert str(path) in str(raised.value) and "\n" not in str(raised.value)
        assert name in refused(launch, "export", name)
    with pytest.raises(stepscope.RunError, match="no table is called 'pages': steps, ledger"):
        stepscope.Run.__new__(stepscope.Run).table("pages")


@pytest.mark.parametrize("part", [0.001, 0.02, 0.5, 0.98])
def test_half_of_a_file(launch: Launch, example: pathlib.Path, part: float) -> None:
    path = launch.folder / "half.db"
    path.write_bytes(example.read_bytes()[: int(example.stat().st_size * part)])
    with pytest.raises(stepscope.RunError, match=r"half\.db: .*malformed"):
        stepscope.Run(path)
    assert "half.db" in refused(launch, "export", "half.db")


def test_a_file_that_breaks_while_it_is_open(example: pathlib.Path, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "run.db"
    path.write_bytes(example.read_bytes())
    run = stepscope.Run(path)
    reader = pa.RecordBatchReader.from_stream(run.steps)
    with open(path, "r+b") as file:
        file.truncate(8192)
    with pytest.raises(OSError, match=r"run\.db: .*malformed"):
        reader.read_next_batch()
    with pytest.raises(stepscope.RunError, match=r"run\.db: "):
        pa.table(run.steps)


def test_damaged_steps_are_left_out_and_counted(example: pathlib.Path, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "bad.db"
    path.write_bytes(example.read_bytes())
    with sqlite3.connect(path) as db:
        db.execute("UPDATE block SET data = zeroblob(length(data)) WHERE id = (SELECT max(id) FROM block)")
    run = stepscope.Run(path)
    assert table(run.steps).num_rows < 12_000
    assert run.damaged == 1 and "damaged" in str(run.damage)
    done = subprocess.run(
        [sys.executable, "-m", "stepscope._export", "parquet", str(path), "steps", str(tmp_path / "s.parquet")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and "1 damaged pieces are left out" in done.stderr


def test_importing_stepscope_loads_no_extension() -> None:
    program = (
        "import sys, stepscope\nours = lambda: sorted(m for m in sys.modules if m.startswith('stepscope.'))\n"
        "print(ours()); stepscope.Run; print(ours())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n['stepscope._run', 'stepscope._run_tables']\n"


def test_export_writes_what_run_reads(launch: Launch, example: pathlib.Path) -> None:
    import pyarrow.feather as feather
    import pyarrow.parquet as parquet

    run = stepscope.Run(example)
    for file, read in (("s.parquet", parquet.read_table), ("s.feather", feather.read_table)):
        done = launch.run("export", str(example), "-o", file)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", f"stepscope: written: {file}\n".encode())
        got = read(launch.folder / file)
        assert got.equals(table(run.steps))
        assert got.schema.equals(pa.schema(run.steps), check_metadata=True)
    assert sorted(p.name for p in launch.folder.iterdir()) == ["s.feather", "s.parquet"]


def test_csv_needs_no_python(launch: Launch, example: pathlib.Path) -> None:
    empty = launch.folder / "bin"
    empty.mkdir()
    done = launch.run(
        "export", str(example), "--table", "findings", env={"PATH": str(empty), "STEPSCOPE_PYTHON_DIR": ""}
    )
    assert (done.returncode, done.stderr) == (0, b"")
    rows = list(csv.DictReader(done.stdout.decode().splitlines()))
    told = table(stepscope.Run(example).findings).to_pylist()
    assert [row["kind"] for row in rows] == [row["kind"] for row in told]
    assert [json.loads(row["ranks"]) for row in rows] == [row["ranks"] for row in told]
    assert [float(row["cost_share"]) for row in rows] == [row["cost_share"] for row in told]
    done = launch.run("export", str(example), "-o", "steps.csv")
    with open(launch.folder / "steps.csv", encoding="utf-8") as file:
        steps = list(csv.DictReader(file))
    walls = table(stepscope.Run(example).steps)["wall_ms"].to_pylist()
    assert [float(row["wall_ms"]) for row in steps] == walls and {row["peak_bytes"] for row in steps} == {""}


def test_without_pyarrow_it_is_said_what_to_install(launch: Launch, example: pathlib.Path) -> None:
    hidden = launch.folder / "hidden"
    hidden.mkdir()
    (hidden / "pyarrow.py").write_text("raise ImportError('not here')")
    done = launch.run("export", str(example), "-o", "s.parquet", env={"PYTHONPATH": str(hidden)})
    assert done.returncode == 1 and done.stderr.count(b"\n") == 1
    assert b"pip install pyarrow (or --format csv)" in done.stderr
    assert not (launch.folder / "s.parquet").exists()


def test_the_interpreter_may_be_named(launch: Launch, example: pathlib.Path) -> None:
    done = launch.run(
        "export", str(example), "--python", sys.executable, "--table", "all", "-o", "t", "--format", "parquet"
    )
    assert done.returncode == 0 and sorted(p.stem for p in (launch.folder / "t").iterdir()) == sorted(TABLES)
    done = launch.run("export", str(example), "--python", "no-such-python", "-o", "s.parquet")
    assert (done.returncode, done.stderr) == (1, b"stepscope: no-such-python: No such file or directory\n")


def test_a_file_that_cannot_be_written(launch: Launch, example: pathlib.Path) -> None:
    for name in ("no/such/s.parquet", "no/such/s.csv"):
        done = launch.run("export", str(example), "-o", name)
        assert done.returncode == 1 and done.stderr.count(b"\n") == 1 and b"no/such" in done.stderr
    assert list(launch.folder.iterdir()) == []


def test_examples_of_the_document(launch: Launch, example: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    (launch.folder / "logs").symlink_to(example.parent.parent)
    examples = console_examples(DOCUMENT)
    assert len(examples) == 4
    for command, printed in examples:
        words = shlex.split(command.partition(" | ")[0])
        done = launch.run(*words[1:])
        assert words[0] == "stepscope" and done.returncode == 0
        cut = re.search(r" \| head -c (\d+)$", command)
        if cut:
            assert done.stdout.decode()[: int(cut[1])] == printed
        else:
            assert trimmed(done.stderr.decode()) == printed
    assert len(list((launch.folder / "tables").iterdir())) == len(TABLES)


def test_python_of_the_document(example: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    pytest.importorskip("pandas")
    monkeypatch.chdir(example.parent.parent.parent)
    (program,) = re.findall(r"^```python\n(.*?)^```$", DOCUMENT.read_text(), re.S | re.M)
    exec(compile(ast.parse(program), str(DOCUMENT), "exec"), {})
    said = capsys.readouterr().out
    assert "example completed None" in said and "backward_ms" in said and "b'ms'" in said


def test_the_documents_tables_are_those_that_there_are() -> None:
    listed = DOCUMENT.read_text().partition("| table | one row per |")[2].partition("Null is")[0]
    assert re.findall(r"^\| `(\w+)` \|", listed, re.M) == TABLES

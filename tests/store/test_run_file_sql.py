"""The run file as people without stepscope read it: `sqlite3`, and a second decoder written from the format's page."""

from __future__ import annotations

import re
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from run_file import Column, decode_column, read_metric, write_example

ROOT = Path(__file__).resolve().parents[2]


PAGE = ROOT / "docs/formats/run_file.md"


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A closed run file: 3,000 steps of 4 ranks, rank 1 slow in backward, written by the C++ side."""
    path = tmp_path_factory.mktemp("store") / "run.db"
    write_example(path)
    assert path.stat().st_size > 100_000
    yield path


def _queries() -> list[str]:
    return re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.S)


def test_the_page_has_queries() -> None:
    assert len(_queries()) >= 10


@pytest.mark.parametrize("sql", _queries())
def test_every_query_of_the_page_answers(example: Path, sql: str) -> None:
    program = shutil.which("sqlite3")
    if program is None:
        rows = sqlite3.connect(f"file:{example}?mode=ro", uri=True).execute(sql).fetchall()
        assert rows
        return
    done = subprocess.run([program, "-readonly", str(example), sql], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip(), f"no row: {sql}"


def test_the_answers_are_right(example: Path) -> None:
    db = sqlite3.connect(f"file:{example}?mode=ro", uri=True)
    assert db.execute("SELECT name, status, world_size FROM run").fetchall() == [("example", "completed", 4)]
    assert db.execute("SELECT kind, ranks, phase FROM finding WHERE severity = 'crit'").fetchall() == [
        ("COMPUTE_STRAGGLER", "[1]", "backward")
    ]
    waited = db.execute(
        "SELECT caused_rank, sum(caused_ms * stride) FROM step_summary WHERE caused_rank IS NOT NULL GROUP BY 1 ORDER BY 2 DESC"
    ).fetchall()
    assert waited[0][0] == 1
    first, last = db.execute("SELECT min(step), max(step) FROM step_summary").fetchone()
    assert first == 0 and last == 2999
    assert db.execute("SELECT sum(stride) FROM step_summary").fetchone() == (3000,)
    tags = {step: tags for step, tags in db.execute("SELECT step, tags FROM step_summary WHERE tags <> ''")}
    assert (
        tags and set(tags.values()) == {"checkpoint"} and all(step % 500 >= 490 for step in tags)
    )  # rows are thinned: a save may stand at a near step, tags
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_the_page_names_every_table_and_metric(example: Path) -> None:
    db = sqlite3.connect(f"file:{example}?mode=ro", uri=True)
    page = PAGE.read_text()
    for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')"):
        assert f"`{name}`" in page or re.search(rf"\b{name}\b", page), name
    categories = set(re.findall(r'"(\w+)"', (ROOT / "src/align/category.h").read_text()))
    for number, name in db.execute("SELECT id, name FROM metric"):
        if 16 <= number < 48 or number >= 128:
            assert name.removeprefix("host_") in categories or name in categories, name
        else:
            assert f"`{name}`" in page, name


def test_a_decoder_written_from_the_page_reads_the_columns(example: Path) -> None:
    db = sqlite3.connect(f"file:{example}?mode=ro", uri=True)
    steps = read_metric(db, 1)
    assert steps == [list(range(3000))]
    wall = [[0.0] * 3000 for _ in range(4)]
    for number in [10, *range(16, 34)]:
        for rank, values in enumerate(read_metric(db, number)):
            for i, value in enumerate(values):
                wall[rank][i] += value
    longest = [max(wall[rank][i] for rank in range(4)) for i in range(3000)]
    for step, wall_ms in db.execute("SELECT step, wall_ms_max FROM step_summary WHERE stride = 1"):
        assert longest[step] * 1e-6 == pytest.approx(wall_ms, abs=0.004)
    caused = read_metric(db, 48)
    assert sum(caused[1]) > 10 * sum(caused[0])


def test_a_damaged_column_is_noticed(example: Path) -> None:
    db = sqlite3.connect(f"file:{example}?mode=ro", uri=True)
    data, ranks, rows = db.execute(
        "SELECT data, b.ranks, s.rows FROM block b JOIN segment s ON s.id = b.segment WHERE metric = 18 AND fold = 0 LIMIT 1"
    ).fetchone()
    shape = Column(count=ranks * rows, length=rows)
    assert len(decode_column(data, shape)) == ranks * rows
    broken = bytearray(data)
    broken[len(broken) // 2] ^= 0x10
    with pytest.raises(ValueError, match="check word"):
        decode_column(bytes(broken), shape)

"""`stepscope hang`: published dumps, the document's example, bad input. The rules themselves: src/flight."""

from __future__ import annotations

import json
import os
import pathlib
import pickle
import re
import shlex

import pytest
from launches import refused

from document_examples import console_examples, trimmed
from published import published

ROOT = pathlib.Path(__file__).resolve().parents[2]


DOCUMENT = ROOT / "docs" / "hang.md"
DUMPS = ROOT / "tests" / "data" / "dumps"
KINDS = {"GPU_ERROR": "gpu_never_finishes", "LOCK_GIL": "host_stuck"}


def judged(launch, *paths) -> dict:
    done = launch.run("hang", "--json", *map(str, paths))
    assert (done.returncode, done.stderr) == (0, b"")
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", ["gpu_error_1st", "lock_gil_1st"])
def test_published_dumps_name_the_injected_ranks(launch, name):
    folder = published("flight_recorder") / name
    injected = re.findall(r"Rank (\d+), fault_type: (\w+)", (folder / "fault_injection.log").read_text())
    verdict = judged(launch, folder)
    assert [(str(c["rank"]), c["kind"]) for c in verdict["culprits"]] == [
        (rank, KINDS[kind]) for rank, kind in injected
    ]
    assert len(verdict["victims"]) == 16 - len(injected)


def dump(rank: int, enqueued: int, completed: int, ranks: int = 4) -> dict:
    """A dump whose rank has issued `enqueued` all-reduces and finished `completed` of them."""
    entries = [
        {
            "record_id": i,
            "pg_id": 0,
            "process_group": ("0", "default_pg"),
            "collective_seq_id": i,
            "p2p_seq_id": 0,
            "profiling_name": "nccl:all_reduce",
            "time_created_ns": 10**18 + i,
            "input_sizes": [[1024]],
            "input_dtypes": ["Float"],
            "state": "completed" if i <= completed else "scheduled",
            "retired": i <= completed,
            "is_p2p": False,
        }
        for i in range(1, enqueued + 1)
    ]
    return {
        "version": "2.10",
        "entries": entries,
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(ranks)))}},
        "pg_status": {
            "0": {
                "last_enqueued_collective": enqueued,
                "last_started_collective": -1,
                "last_completed_collective": completed,
            }
        },
    }


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_dumps_of_pythons_pickle(launch, protocol):
    for rank in range(4):
        (launch.folder / f"dump_{rank}").write_bytes(
            pickle.dumps(dump(rank, 8 if rank == 2 else 9, 8), protocol=protocol)
        )
    (launch.folder / "notes.txt").write_text("not a dump")
    verdict = judged(launch, ".")
    assert [(c["rank"], c["kind"]) for c in verdict["culprits"]] == [(2, "host_stuck")] and verdict["victims"] == [
        0,
        1,
        3,
    ]


def test_the_documents_example_is_what_is_printed(launch):
    examples = console_examples(DOCUMENT)
    assert examples
    for command, expected in examples:
        words = shlex.split(command)
        done = launch.run(*words[1:], cwd=ROOT)
        assert trimmed(done.stdout.decode() + done.stderr.decode()) == expected


def test_fields_of_the_document_are_those_of_the_output(launch):
    verdict = judged(launch, DUMPS)
    text = DOCUMENT.read_text()
    for field in [*verdict, *verdict["groups"][0], *verdict["culprits"][0]]:
        assert f"`{field}`" in text, field


class Exploit:
    def __init__(self, command: str):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


def test_a_pickle_with_a_class_is_refused_and_not_run(launch):
    for protocol in (2, 4):
        (launch.folder / "dump_0").write_bytes(pickle.dumps({"entries": [Exploit("touch owned")]}, protocol=protocol))
        assert "GLOBAL at byte" in refused(launch, "hang", "dump_0") and not (launch.folder / "owned").exists()


@pytest.mark.parametrize(
    "content, said",
    [
        (b"", "an empty file"),
        (b"\x80\x02", "ends before its STOP"),
        (pickle.dumps(dump(0, 3, 3), protocol=2)[:-200], "byte"),
        (json.dumps(dump(0, 3, 3)).encode()[:-20], "cut off"),
        (b"\x80\x02]q\x00h\x00a.", "nests deeper"),
        (b"plain text", "neither a pickle nor JSON"),
    ],
)
def test_bad_input_is_one_line(launch, content, said):
    (launch.folder / "dump_0").write_bytes(content)
    line = refused(launch, "hang", "dump_0")
    assert line.startswith("stepscope: dump_0: ") and said in line


def test_jobs_that_are_mixed_and_folders_without_dumps_are_one_line(launch):
    (launch.folder / "a_0").write_bytes(pickle.dumps(dump(0, 1, 1)))
    (launch.folder / "b_1").write_text(json.dumps(dump(1, 1, 1, ranks=8)))
    (launch.folder / "empty").mkdir()
    for words, said in (
        (["a_0", "b_1"], "of another job"),
        (["a_0", "a_0"], "rank 0 again"),
        (["empty"], "no Flight Recorder dump in it"),
        (["none"], "No such file"),
    ):
        assert said in refused(launch, "hang", *words)


def test_a_dump_that_is_cut_off_is_said_and_hides_no_other(launch):
    for rank in range(4):
        (launch.folder / f"dump_{rank}").write_bytes(
            pickle.dumps(dump(rank, 8 if rank == 2 else 9, 8))[: -300 if rank == 1 else None]
        )
    (launch.folder / "dump_3").write_bytes(b"")
    done = launch.run("hang", "--json", ".")
    assert done.returncode == 0 and done.stderr.count(b"\n") == 2
    assert b"dump_1: the pickle" in done.stderr and b"dump_3: an empty file" in done.stderr
    verdict = json.loads(done.stdout)
    assert verdict["no_dump"] == [1, 3] and [c["rank"] for c in verdict["culprits"]] == [2]


def test_one_dump_of_many_decides_nothing(launch):
    (launch.folder / "dump_0").write_bytes(pickle.dumps(dump(0, 5, 4)))
    verdict = judged(launch, "dump_0")
    assert verdict["outcome"] == "undecided" and verdict["culprits"] == [] and verdict["no_dump"] == [1, 2, 3]

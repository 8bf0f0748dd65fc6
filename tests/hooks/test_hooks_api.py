"""The Python interface: cheap, quiet when off, the same numbers as the C headers."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from hook_jobs import PACKAGE, make_runner

import jobs
import ring

ROOT = Path(__file__).resolve().parents[2]


def python(code: str, shm=None, **env: str) -> jobs.Outcome:
    return jobs.run([sys.executable, "-c", code], make_runner().environment(shm, env), timeout_s=120)


def test_numbers_are_those_of_the_headers():
    sys.path.insert(0, str(PACKAGE.parent))
    from stepscope import _kinds as k

    text = (ROOT / "src/blackbox/event_kind.h").read_text()
    for name, number in re.findall(r"X\((\w+), (\d+)\)", text):
        ours = re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper()
        if hasattr(k, ours):
            assert getattr(k, ours) == int(number), name
    for prefix, enum in (("NAME_", "NameKind"), ("SAVE_", "SaveApi"), ("", "CollectiveOp")):
        body = re.search(rf"enum class {enum} : \w+ {{(.*?)}};", text, re.S).group(1)
        for name, number in re.findall(r"k(\w+) = (\d+)", body):
            ours = prefix + re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper()
            if hasattr(k, ours):
                assert getattr(k, ours) == int(number), name
    assert k.SCHEDULER == 34 and k.WORKER_FETCH == 22 and k.NAME_MESH == 10


def test_import_is_cheap_and_leaves_torch_alone():
    done = python(
        "import sys, time; t = time.perf_counter(); import stepscope; dt = time.perf_counter() - t\n"
        "assert 'torch' not in sys.modules and 'stepscope._native' not in sys.modules\n"
        "from stepscope import *\nassert 'torch' not in sys.modules\nassert dt < 0.1, dt\n"
        "print(stepscope.__version__)"
    )
    assert done.rc == 0, done.stderr
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", done.stdout)


def test_everything_does_nothing_without_a_launcher():
    done = python(
        "import stepscope as s\n"
        "with s.trace_step(object()): s.log(loss=1)\n"
        "@s.trace_phase('x')\ndef f(a, b=2): return a + b\n"
        "assert f(1) == 3 and f.__name__ == 'f'\n"
        "o = object(); assert s.wrap_backward(o) is o\n"
        "assert list(s.wrap_dataloader_fetch([1, 2])) == [1, 2]\n"
        "assert s.summary() is None and s.final_summary() is None\n"
        "import os; print(os.environ.get('STEPSCOPE_SHM'))",
    )
    assert (done.rc, done.stdout) == (0, "None\n"), done.stderr


def test_unknown_names_are_attribute_errors():
    done = python("import stepscope\ntry: stepscope.nope\nexcept AttributeError as e: print(e)")
    assert "has no attribute 'nope'" in done.stdout


API = """
import asyncio, stepscope as s
class Loader:
    def __iter__(self): return iter([1, 2, 3])
    def __len__(self): return 3
class Engine:
    def step(self): return 7
loader = s.wrap_dataloader_fetch(Loader())
assert len(loader) == 3
opt = s.wrap_optimizer(Engine())
backward = s.wrap_backward(lambda: 5)
h2d = s.wrap_h2d(lambda x: x)
forward = s.wrap_forward(lambda x: x * 2)
for x in loader:
    with s.trace_step():
        with s.trace_phase("augment"):
            y = forward(h2d(x))
        assert backward() == 5 and opt.step() == 7
        s.log(loss=0.5 * x, tokens=128, note="text", nan=float("nan"))
@s.trace_phase("later")
async def later(): return 1
assert asyncio.run(later()) == 1
try:
    with s.trace_step():
        raise ValueError("mine")
except ValueError as e: assert str(e) == "mine"
"""


def test_marks_of_a_loop_without_torch(run):
    done = run([sys.executable, "-c", API]).check()
    (box,) = done.rings
    assert box.evidence & 1 and (box.rank, box.world_size) == (0, 1)
    for what, n in {
        "Step": 4,
        "UserPhase": 4,
        "Fetch": 4,
        "Forward": 3,
        "H2d": 3,
        "Backward": 3,
        "Optimizer": 3,
    }.items():
        assert box.count(what + ">") == box.count(what + "<") == n, what
    assert {"augment", "later"} <= set(box.named(5)) and {"loss", "tokens"} <= set(box.named(6))
    import struct

    loss = next(i for (kind, i), t in box.names.items() if kind == 6 and t == "loss")
    values = [struct.unpack("<d", struct.pack("<Q", r.b))[0] for r in box.records if r.kind == "Value" and r.a == loss]
    assert values == [0.5, 1.0, 1.5]
    assert sum(r.kind == "Value" for r in box.records) == 9  # text is not a number
    assert len(ring.steps(box.records)) == 3


def test_disabled_means_off(run):
    done = run([sys.executable, "-c", API], env={"STEPSCOPE_DISABLE": "1"}).check()
    assert done.rings == []


@pytest.mark.parametrize("shm", ["/nonexistent/folder", "/proc/1"])
def test_no_shared_memory_is_no_error(shm):
    done = python(API, STEPSCOPE_SHM=shm)
    assert done.rc == 0 and done.stderr == "", done.stderr


def test_final_summary_reads_the_file(tmp_path):
    (tmp_path / "final_summary.json").write_text('{"schema_version": 1}')
    done = python(
        "import stepscope; print(stepscope.final_summary()['schema_version'])", STEPSCOPE_RUN_DIR=str(tmp_path)
    )
    assert done.stdout == "1\n", done.stderr

"""What stepscope replaces looks and behaves like the original: compared with an interpreter that it has not entered."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hook_jobs import JOBS

JOB = (JOBS / "sameness.py").read_text()
NAMES = [*JOB.split('REPLACED = """')[1].split('"""')[0].split(), "behaviour"]


@pytest.fixture(scope="module")
def seen(run) -> tuple[dict[str, Any], dict[str, Any]]:
    hooked = run("sameness.py", env={"RANK": "0", "WORLD_SIZE": "1"}).check()
    assert hooked.rings  # the hooks are in
    bare = run("sameness.py", hooked=False, env={"RANK": "0", "WORLD_SIZE": "1"}).check()
    return json.loads(hooked.stdout), json.loads(bare.stdout)


@pytest.mark.parametrize("name", NAMES)
def test_a_program_sees_no_difference(seen, name):
    hooked, bare = (dict(side[name]) for side in seen)
    for ability in ("weak", "hash"):  # some of pybind's functions have neither; a stand-in may
        if bare.get(ability) == "TypeError":
            hooked[ability] = bare[ability]
    assert hooked == bare


def test_the_list_is_whole(run):
    """Every stand-in that a program can reach by the modules and classes of torch is compared above."""
    code = """
import sys, runpy, io, contextlib
with contextlib.redirect_stdout(io.StringIO()):
    runpy.run_path(sys.argv[1], run_name='__main__')
from stepscope import _native
found = set()
for name, module in list(sys.modules.items()):
    if not name.startswith('torch'):
        continue
    for key, value in list(vars(module).items()):
        if _native.is_stand_in(value):
            found.add(key)
        if isinstance(value, type):
            found |= {f'{value.__name__}.{k}' for k, v in vars(value).items() if _native.is_stand_in(v)}
print(' '.join(sorted(found)))
"""
    import sys

    done = run([sys.executable, "-c", code, str(JOBS / "sameness.py")]).check()
    compared = {name.partition(":")[2] for name in NAMES}
    assert set(done.stdout.split()) and set(done.stdout.split()) <= compared

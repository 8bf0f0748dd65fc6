"""Injection: the right processes are ranks, all others stay silent, and what the user had still runs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hook_jobs import JOBS, PACKAGE, ROOT


def evident(done):
    return [b for b in done.rings if b.evidence]


def test_a_process_without_torch_leaves_no_trace(run):
    done = run([sys.executable, "-c", "import json, sys; print('stepscope' in sys.modules)"]).check()
    assert done.stdout == "False\n" and done.rings == []


def test_torch_without_training_leaves_no_trace(run):
    done = run([sys.executable, "-c", "import torch; print(torch.ones(1))"]).check()
    assert done.rings == []


def test_children_of_a_rank_are_no_ranks(run):
    done = run("train.py", env={"CHILD": "1", "FORK": "1", "RANK": "0", "WORLD_SIZE": "1"}).check()
    assert len(done.rings) == 1
    (box,) = done.rings
    assert box.count("Optimizer<") == 4  # the forked child's five are nowhere


@pytest.mark.slow
def test_torchrun_itself_stays_silent(run):
    done = run("train.py", ranks=2).check()
    assert [(b.rank, b.world_size) for b in done.rings] == [(0, 2), (1, 2)]
    assert all(b.count("Process") >= 3 for b in done.rings)  # torch imported, rank known, exit
    assert all(0 < b.process_start_ns < b.records[0].time for b in done.rings)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_ranks_started_by_multiprocessing(run, method):
    done = run("train.py", "spawn", method).check()
    assert [(b.rank, b.world_size) for b in evident(done)] == [(0, 2), (1, 2)]
    assert all(b.count("Optimizer<") == 3 for b in evident(done))


@pytest.mark.slow
def test_kill_switch(run):
    assert run("train.py", env={"STEPSCOPE_DISABLE": "1"}).check().rings == []


def test_shadowed_sitecustomize_still_runs(run, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.user_site_ran = True\n")
    path = f"{PACKAGE / '_inject'}:{tmp_path}:{PACKAGE.parent}:{JOBS}"
    done = run("train.py", env={"PYTHONPATH": path}).check()
    assert done.said["site"] == ["user_site_ran"] and len(evident(done)) == 1


@pytest.mark.slow
def test_failing_sitecustomize_fails_as_it_would(run, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("raise RuntimeError('user site is broken')\n")
    path = f"{PACKAGE / '_inject'}:{tmp_path}:{PACKAGE.parent}:{JOBS}"
    done = run("train.py", env={"PYTHONPATH": path}).check()
    assert "user site is broken" in done.stderr and len(evident(done)) == 1


def test_sitecustomize_and_usercustomize_run_once(run, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("print('site')\n")
    (tmp_path / "usercustomize.py").write_text("print('user')\n")
    path = f"{PACKAGE / '_inject'}:{tmp_path}"
    assert run([sys.executable, "-c", "print('main')"], env={"PYTHONPATH": path}).check().stdout == "site\nmain\n"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    outside = [
        str(Path(sys.base_prefix, "bin", version)),
        "-c",
        "print('main')",
    ]  # virtual environments have no usercustomize
    assert run(outside, env={"PYTHONPATH": path}).check().stdout == "site\nuser\nmain\n"


@pytest.mark.parametrize("flags", [["-E"], ["-I"], ["-S"]])
def test_ignored_environment_without_torch(run, flags):
    done = run([sys.executable, *flags, "-c", "import sys; print('stepscope' in sys.modules)"]).check()
    assert done.stdout == "False\n" and done.stderr == "" and done.rings == []


@pytest.mark.slow
@pytest.mark.skipif(not (PACKAGE.parent / "stepscope.pth").exists(), reason="the package under test is not installed")
@pytest.mark.parametrize(
    "flags, path", [(["-E"], None), (["-I"], None), ([], "nothing/of/ours")], ids=["E", "I", "own_path"]
)
def test_hooks_come_in_where_pythonpath_is_not_ours(run, flags, path):
    """By stepscope.pth in the site-packages of the training's interpreter."""
    code = f"import runpy, sys; sys.path.insert(0, {str(JOBS)!r}); runpy.run_path({str(JOBS / 'train.py')!r}, run_name='__main__')"
    done = run([sys.executable, *flags, "-c", code], env={"PYTHONPATH": path} if path else None).check()
    assert done.stderr == ""
    (box,) = evident(done)
    assert box.count("Optimizer<") == 3


def test_the_pth_file_is_silent_without_a_package(run, tmp_path):
    """What stays behind when the package beside it is gone, or is broken."""
    line = (ROOT / "python/stepscope.pth").read_text()
    assert line.startswith("import ") and line.count("\n") == 1
    (tmp_path / "stepscope.pth").write_text(line)
    code = f"import site; site.addsitedir({str(tmp_path)!r}); print('on')"
    assert run([sys.executable, "-c", code]).check().stdout == "on\n"
    (tmp_path / "stepscope" / "_inject").mkdir(parents=True)
    (tmp_path / "stepscope" / "_inject" / "sitecustomize.py").write_bytes(
        (PACKAGE / "_inject/sitecustomize.py").read_bytes()
    )
    done = run([sys.executable, "-I", "-c", code]).check()
    assert (done.stdout, done.stderr) == ("on\n", "")


@pytest.mark.slow
def test_output_is_the_trainings_own(run):
    hooked, bare = run("train.py").check(), run("train.py", hooked=False).check()
    assert hooked.stdout == bare.stdout and hooked.stderr == bare.stderr


@pytest.mark.slow
def test_a_broken_package_is_no_error(run, tmp_path):
    (tmp_path / "stepscope").mkdir()
    (tmp_path / "stepscope" / "__init__.py").write_text("raise ImportError('broken install')\n")
    path = f"{PACKAGE / '_inject'}:{tmp_path}:{JOBS}"
    done = run([sys.executable, "-c", "import torch; print('fine')"], env={"PYTHONPATH": path}).check()
    assert done.stdout == "fine\n"

"""Scripts written for TraceML (anew, from its documentation) run under --compat traceml: right steps, right phases."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest
from compat_runs import SCRIPTS, TIMEOUT_S, Run, python_env, stepscope

import jobs

has = importlib.util.find_spec


@pytest.fixture
def run(tmp_path: Path):
    return lambda script, *args, options=(), env=None: Run.of(
        tmp_path, SCRIPTS / script, *args, options=options, env=env
    )


def names_of(run: Run) -> str:
    return " ".join(run.summary["observer"]["unavailable"])


def test_single_process_with_init_trace_step_and_summaries(run) -> None:
    done = run("tm_single.py", "60").check()
    assert done.steps == 60
    assert {"input_wait", "forward", "backward", "optimizer"} <= done.phases
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert int(said["STEPS"]) in (59, 60)  # the last one may still be open when the script asks
    assert said["PRIMARY"] == "True" and said["AVERAGE"] == "True True"
    assert "traceml_ai" in said["PACKAGE"]
    assert "init(ui_mode=…): the launcher decides: --mode" in names_of(done)


def test_manual_mode_with_every_wrapper(run) -> None:
    done = run("tm_manual.py").check()
    assert done.stdout == "DONE True\n"
    assert done.steps == 40
    assert {"input_wait", "forward", "backward", "optimizer"} <= done.phases
    assert done.summary["phases"]["input_wait"]["median_ms"] > 1.5  # the script's own loader sleeps 2 ms


def test_names_of_the_talks_and_one_word_about_layers(run) -> None:
    done = run("tm_talks.py").check()
    assert done.steps == 30
    assert {"forward", "backward", "optimizer"} <= done.phases
    assert done.summary["ledger"]["job"]["user_code"]["ms"] > 30 * 2.5  # "data_loading": 3 ms a step under its name
    lines = [
        line for line in done.stderr.splitlines() if "per-layer figures" in line and line.startswith("stepscope: ")
    ]
    assert len(lines) == 1, done.stderr
    assert "per-layer figures: trace_model_instance" in names_of(done)


@pytest.mark.slow
def test_two_ranks_under_ddp(run) -> None:
    done = run("tm_ddp.py", options=["--nproc-per-node", "2"]).check()
    assert done.steps == 60 and done.summary["run"]["world_size"] == 2
    assert sorted(done.stdout.split()) == ["2", "RANK0", "RANK1", "none"]
    straggler = [f for f in done.summary["findings"] if f["kind"] == "COMPUTE_STRAGGLER"]
    assert [f["ranks"] for f in straggler] == [[1]] and straggler[0]["phase"] == "forward"


@pytest.mark.slow
@pytest.mark.skipif(
    not has("transformers") or not has("accelerate"), reason="transformers and accelerate are not installed"
)
@pytest.mark.parametrize("way", ["callback", "trainer"])
def test_hugging_face(run, tmp_path: Path, way: str) -> None:
    done = run("tm_hf.py", str(tmp_path / "out"), way).check()
    assert done.stdout.splitlines()[-1] == "DONE 24"
    assert done.steps == 24
    assert {"forward", "backward", "optimizer"} <= done.phases
    job = done.summary["ledger"]["job"]
    assert job["validation"]["ms"] > 0 and job["checkpoint"]["ms"] > 0
    assert ("per-layer figures" in names_of(done)) == (way == "trainer")


@pytest.mark.slow
@pytest.mark.parametrize(
    "package, source",
    [
        ("lightning", "traceml_ai.integrations.lightning"),
        ("pytorch_lightning", "traceml.utils.lightning"),
    ],
)
def test_lightning(run, package: str, source: str) -> None:
    if not has(package):
        pytest.skip(f"{package} is not installed")
    done = run("tm_lightning.py", package, source).check()
    assert done.stdout.splitlines()[-1] == "DONE 20"
    assert done.steps == 20
    assert {"forward", "backward", "optimizer"} <= done.phases
    assert done.summary["ledger"]["job"]["validation"]["ms"] > 0


@pytest.mark.slow
@pytest.mark.skipif(not has("ray"), reason="ray is not installed")
def test_ray_train(run, tmp_path: Path) -> None:
    done = run("tm_ray.py", str(tmp_path / "storage")).check()
    assert "DONE" in done.stdout
    assert done.steps == 30 and done.summary["run"]["world_size"] == 2


FAKE = "raise SystemExit('the installed package was imported')\n"


def test_an_installed_traceml_is_not_imported(run, tmp_path: Path) -> None:
    for name in ("traceml", "traceml_ai"):
        (tmp_path / "site" / name).mkdir(parents=True)
        (tmp_path / "site" / name / "__init__.py").write_text(FAKE)
    script = tmp_path / "s.py"
    script.write_text(
        "import traceml, traceml_ai\nfrom traceml_ai import trace_step as a\nfrom traceml import trace_step as b\n"
        "assert a is b and traceml is traceml_ai\nprint(traceml.__file__)\n"
    )
    site = {"PYTHONPATH": str(tmp_path / "site")}
    done = Run.of(tmp_path, script, env=site)
    assert done.rc == 0 and "stepscope/compat/traceml" in done.stdout, done.stderr
    without = stepscope(tmp_path, "run", "--compat", "none", "s.py", env=site)
    assert without.rc == 1 and "the installed package was imported" in without.stderr


def test_a_disabled_run_keeps_the_names(tmp_path: Path) -> None:
    script = "import traceml\ntraceml.init()\nwith traceml.trace_step(None): pass\nprint(traceml.final_summary(), traceml.summary())\n"
    (tmp_path / "s.py").write_text(script)
    done = stepscope(tmp_path, "run", "--compat", "traceml", "--disable", "s.py")
    assert (done.rc, done.stdout, done.stderr) == (0, "None {}\n", "")
    assert not (tmp_path / "logs").exists()


@pytest.mark.parametrize("source", ["env", "file"])
def test_compat_from_environment_and_file_and_traceml_variables(tmp_path: Path, source: str) -> None:
    (tmp_path / "s.py").write_text("from traceml.decorators import trace_step\nprint('ok')\n")
    env = {"TRACEML_LOGS_DIR": "there", "TRACEML_SESSION_ID": "named"}
    if source == "env":
        env["STEPSCOPE_COMPAT"] = "traceml"
    else:
        (tmp_path / "stepscope.toml").write_text("compat = 'traceml'\n")
    done = stepscope(tmp_path, "run", "s.py", env=env)
    assert (done.rc, done.stdout) == (0, "ok\n"), done.stderr
    assert json.loads((tmp_path / "there/named/final_summary.json").read_text())["run"]["name"] == "named"


def test_an_unknown_name_is_a_plain_import_error(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text("import traceml\nimport traceml.aggregator\n")
    done = stepscope(tmp_path, "run", "--compat", "traceml", "s.py")
    assert done.rc == 1 and "No module named 'traceml.aggregator'" in done.stderr


def test_without_compat_nothing_is_there(tmp_path: Path) -> None:
    if has("traceml") or has("traceml_ai"):
        pytest.skip("a real traceml is installed")
    (tmp_path / "s.py").write_text("import traceml\n")
    done = stepscope(tmp_path, "run", "s.py")
    assert done.rc == 1 and "No module named 'traceml'" in done.stderr


def test_importing_the_names_imports_neither_torch_nor_frameworks() -> None:
    code = (
        "import sys\nimport stepscope.compat.traceml.decorators, stepscope.compat.traceml.integrations.huggingface\n"
        "import stepscope.compat.traceml.integrations.lightning, stepscope.compat.traceml.integrations.ray\n"
        "import stepscope.integrations.huggingface, stepscope.integrations.lightning, stepscope.integrations.accelerate\n"
        "import stepscope.integrations.ray\n"
        "print([m for m in ('torch', 'transformers', 'lightning', 'accelerate', 'ray') if m in sys.modules])"
    )
    done = jobs.run([sys.executable, "-c", code], python_env(), timeout_s=TIMEOUT_S)
    assert (done.stdout, done.stderr) == ("[]\n", "")

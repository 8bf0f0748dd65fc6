"""docs/from-traceml.md keeps to the program: every name of TraceML has a row, every name of ours in it exists."""

from __future__ import annotations

import importlib
import importlib.util
import re

import pytest
from compat_runs import stepscope

from jobs import ROOT

PAGE = (ROOT / "docs/from-traceml.md").read_text()
NOTHING = "–"

# TraceML 0.3.6 and 0.5.0, as documented.
COMMANDS = ["run", "watch", "serve", "compare", "view", "inspect"]
FLAGS = [
    "mode",
    "interval",
    "enable-logging",
    "logs-dir",
    "run-name",
    "session-id",
    "aggregator-port",
    "aggregator-host",
    "aggregator-bind-host",
    "dashboard-port",
    "no-dashboard-auto-open",
    "summary-window-rows",
    "history-retention",
    "finalize-timeout-sec",
    "trace-max-steps",
    "nproc-per-node",
    "nnodes",
    "node-rank",
    "master-addr",
    "master-port",
    "no-history",
    "on-missing-aggregator",
    "disable-traceml",
    "html-report",
    "capture-stderr",
    "save-training-output",
    "args",
    "output",
    "max-step-time-regression-pct",
    "html",
    "re-render",
]
VARIABLES = [
    "DISABLED",
    "UI_MODE",
    "INTERVAL",
    "ENABLE_LOGGING",
    "LOGS_DIR",
    "SESSION_ID",
    "AGGREGATOR_HOST",
    "AGGREGATOR_BIND_HOST",
    "AGGREGATOR_PORT",
    "DASHBOARD_PORT",
    "DASHBOARD_AUTO_OPEN",
    "SUMMARY_WINDOW_ROWS",
    "FINALIZE_TIMEOUT_SEC",
    "TRACE_MAX_STEPS",
    "HISTORY_ENABLED",
    "HTML_REPORT",
    "CAPTURE_STDERR",
    "ON_MISSING_AGGREGATOR",
]
NAMES = [
    "init",
    "start",
    "trace_step",
    "wrap_dataloader_fetch",
    "wrap_forward",
    "wrap_backward",
    "wrap_optimizer",
    "wrap_h2d",
    "summary",
    "final_summary",
    "decorators.trace_step",
    "decorators.trace_timestep",
    "decorators.trace_model_instance",
    "hf_decorators.TraceMLTrainer",
    "integrations.huggingface.TraceMLTrainerCallback",
    "integrations.lightning.TraceMLCallback",
    "utils.lightning.TraceMLCallback",
    "integrations.ray.TraceMLTorchTrainer",
    "integrations.ray.TraceMLRayConfig",
]
# Classes that need their framework to be made.
NEEDS = {
    "huggingface": ("transformers",),
    "hf_decorators": ("transformers",),
    "accelerate": ("accelerate",),
    "lightning": ("lightning", "pytorch_lightning"),
}


def rows() -> list[tuple[str, str, str]]:
    found = re.findall(r"^\| (`.+?) \| (.+?) \|(.*)\|$", PAGE, re.M)
    return [(a.strip(), b.strip(), c.strip()) for a, b, c in found]


def framework_of(name: str) -> tuple[str, ...]:
    return next((packages for part, packages in NEEDS.items() if f".{part}." in f".{name}."), ())


def resolve(name: str) -> object:
    """A dotted name: the longest importable module, then attributes."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return found
    raise AssertionError(f"no module for {name}")


def exists(name: str) -> None:
    packages = framework_of(name)
    if packages and not any(importlib.util.find_spec(p) for p in packages):
        assert resolve(name.rpartition(".")[0])  # the module itself imports without its framework
        return
    assert callable(resolve(name)), name


def help_of(verb: str) -> str:
    return stepscope(ROOT, verb, "--help").check().stdout


def test_every_name_of_traceml_has_a_row() -> None:
    left = " ".join(a for a, _, _ in rows())
    wanted = [f"`traceml {c}`" for c in COMMANDS] + [f"`--{f}`" for f in FLAGS] + [f"`TRACEML_{v}`" for v in VARIABLES]
    wanted += [f"`traceml.{n}`" for n in NAMES] + ["`traceml.yaml`"]
    assert [w for w in wanted if w not in left] == []


def test_every_row_names_something_of_ours_or_says_why_not() -> None:
    for theirs, ours, note in rows():
        assert "`" in ours or (ours == NOTHING and note), theirs


def test_commands_and_options_exist() -> None:
    front = stepscope(ROOT, "--help").check().stdout
    helps: dict[str, str] = {}
    for theirs, ours, _ in rows():
        if match := re.fullmatch(r"`stepscope (\w+)`", ours):
            assert match[1] in front and help_of(match[1]), theirs
        elif match := re.fullmatch(r"`(--[\w-]+)`(?: of (\w+))?", ours):
            verb = match[2] or "run"
            helps.setdefault(verb, help_of(verb))
            assert re.search(rf"(?<![\w-]){match[1]}(?![\w-])", helps[verb]), f"{verb} has no {match[1]}"
    assert set(helps) == {"run", "compare", "report"}


def test_variables_are_settings_and_their_partners_are_read() -> None:
    table = (ROOT / "src/cli/settings.cc").read_text()
    pairs = [(a, b) for a, b, _ in rows() if a.startswith("`TRACEML_") and b != NOTHING]
    assert len(pairs) >= 7
    for theirs, ours in pairs:
        assert f'"{ours.strip("`")}", "{theirs.strip("`")}"' in table, theirs


@pytest.mark.parametrize(
    "row", [r for r in rows() if r[0].startswith("`traceml.") and r[0] != "`traceml.yaml`"], ids=lambda r: r[0]
)
def test_python_names_exist_on_both_sides(row: tuple[str, str, str]) -> None:
    from stepscope import compat

    theirs, ours = row[0].strip("`"), row[1].strip("`")
    module, _, name = theirs.rpartition(".")
    assert compat.alias_spec(module) is not None, module
    rest = module.partition(".")[2]
    rest = compat._MOVED.get(rest, rest)
    exists(".".join(p for p in ("stepscope.compat.traceml", rest, name) if p))
    if ours != NOTHING:
        exists(ours)


def test_the_tracker_for_accelerate_exists() -> None:
    exists("stepscope.integrations.accelerate.StepscopeTracker")

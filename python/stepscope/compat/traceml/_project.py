"""stepscope's summary told in TraceML's keys. Pure: a dict in, a dict out. Not measured stays None."""

from __future__ import annotations

from typing import Any

SCHEMA_VERSION = "1.7"
_SECTIONS = ("system", "process", "step_time", "step_memory")
# TraceML's name of a step-time metric → stepscope's phase.
_PHASES = {
    "input_wait_ms": "input_wait",
    "h2d_ms": "h2d",
    "forward_ms": "forward",
    "backward_ms": "backward",
    "optimizer_ms": "optimizer",
    "residual_ms": "unattributed",
}
_COMPUTE = ("forward", "backward", "optimizer")


def _status(kind: str) -> str:
    """``INPUT_BOUND`` as TraceML prints it."""
    return kind.replace("_", " ") if kind.endswith("STRAGGLER") else kind.replace("_", "-")


def _issue(finding: dict[str, Any]) -> dict[str, Any]:
    return {
        "kind": finding["kind"],
        "status": _status(finding["kind"]),
        "severity": finding["severity"],
        "summary": finding["title"],
        "action": finding.get("action"),
        "phase": finding.get("phase"),
        "ranks": finding["ranks"],
        "share_pct": (finding.get("cost") or {}).get("share"),
        "evidence": finding.get("evidence"),
    }


def _quiet(kind: str, severity: str = "info", text: str | None = None) -> dict[str, Any]:
    """A diagnosis without a finding of its own: BALANCED, NO_DATA."""
    return {"kind": kind, "status": _status(kind), "severity": severity, "summary": text, "action": None}


def _medians(ours: dict[str, Any]) -> dict[str, float | None]:
    found = {name: (ours["phases"].get(phase) or {}).get("median_ms") for name, phase in _PHASES.items()}
    parts = [(ours["phases"].get(phase) or {}).get("median_ms") for phase in _COMPUTE]
    found["compute_ms"] = sum(p for p in parts if p is not None) if any(p is not None for p in parts) else None
    found["step_time_ms"] = ours["steps"]["wall_ms"]["p50"]
    return found


def _worst(ours: dict[str, Any]) -> dict[str, dict[str, Any]]:
    rows = {name: ours["phases"].get(phase) or {} for name, phase in _PHASES.items()}
    return {name: {"value": row.get("worst_ms"), "idx": row.get("worst_rank")} for name, row in rows.items()}


def _step_time(ours: dict[str, Any], section: dict[str, Any]) -> None:
    medians = _medians(ours)
    count = ours["steps"]["count"]
    section["metadata"]["training_total_steps"] = count
    section["global"] = {
        "window": {"steps_analyzed": ours["steps"]["analyzed"], "completed_step": count},
        "average": {**medians, "step_time_ms": ours["steps"]["wall_ms"]["mean"]},
        "median": {name: {"value": value, "idx": None} for name, value in medians.items()},
        "worst": _worst(ours),
    }
    section["groups"] = {
        "by": "rank",
        "rows": {str(row["rank"]): {"metrics": {"step_time_ms": row.get("step_ms")}} for row in ours["per_rank"]},
    }


def _section(ours: dict[str, Any], name: str) -> dict[str, Any]:
    raw = ours["sections"].get(name) or {}
    kind = raw.get("diagnosis") or "NO_DATA"
    issues = [_issue(f) for f in ours["findings"] if f["kind"] == kind]
    run = ours["run"]
    section: dict[str, Any] = {
        "metadata": {"duration_s": run["duration_s"], "global_ranks_seen": [row["rank"] for row in ours["per_rank"]]},
        "diagnosis": issues[0] if issues else _quiet(kind, raw.get("severity", "info"), raw.get("text")),
        "issues": issues,
        "card": raw.get("text") or "",
    }
    if name == "step_time":
        _step_time(ours, section)
    else:
        section["global"] = {"average": dict(raw.get("values") or {})}
    return section


def _primary(ours: dict[str, Any]) -> dict[str, Any]:
    found = ours.get("primary")
    issue = _issue(found) if found else _quiet("NO_CLEAR_PERFORMANCE_BOTTLENECK")
    return {**issue, "section": "step_time", "scope": "performance"}


def full(ours: dict[str, Any]) -> dict[str, Any]:
    """The shape of TraceML's ``final_summary.json``; stepscope's own summary rides along under ``"stepscope"``."""
    run = ours["run"]
    result: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "duration_s": run["duration_s"],
        "meta": {
            "run_name": run["name"],
            "mode": "multi_node" if (run["nodes"] or 0) > 1 else "single_node",
            "world_size": run["world_size"],
            "nodes_observed": run["nodes"],
        },
        "primary_diagnosis": _primary(ours),
    }
    for name in _SECTIONS:
        result[name] = _section(ours, name)
    primary = result["primary_diagnosis"]
    result["text"] = f"{primary['status']} ({primary['severity']}): {primary['summary'] or 'no clear bottleneck'}"
    result["stepscope"] = ours
    return result


def flat(ours: dict[str, Any]) -> dict[str, Any]:
    """Flat ``traceml/…`` keys: the diagnoses as text, the averages of each section as numbers."""
    whole = full(ours)
    primary = whole["primary_diagnosis"]
    result: dict[str, Any] = {
        "traceml/schema_version": SCHEMA_VERSION,
        "traceml/duration_s": whole["duration_s"],
        **{f"traceml/primary/{key}": primary[key] for key in ("kind", "status", "severity", "section")},
    }
    for name in _SECTIONS:
        section = whole[name]
        result[f"traceml/{name}/status"] = section["diagnosis"]["status"]
        result[f"traceml/{name}/severity"] = section["diagnosis"]["severity"]
        for metric, value in section["global"]["average"].items():
            if value is not None:
                result[f"traceml/{name}/{metric}"] = value
    return result

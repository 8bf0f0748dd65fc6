"""What must hold after a soak: memory flat, every count right. Reads what the runner kept, judges, makes the table."""

from __future__ import annotations

import itertools
import json
import statistics
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Memory is judged where it no longer fills up: what the script does seldom was done often, what the agent keeps is full.
WARM_UP, WARM_UP_STEPS = 0.1, 100_000
MIN_SAMPLES = 20
# Growth that is no leak: what an allocator takes at a time, once, and what cannot be told from nothing within 2 million steps.
GRAIN_KIB = 1024
RATE_KIB = {"rank_kib": 1024, "agent_kib": 1024, "ring_kib": 0, "names_bytes": 0}  # per million steps: a byte a step
TITLES = {
    "rank_kib": "rank, anonymous memory",
    "agent_kib": "agent, anonymous memory",
    "ring_kib": "ring in shared memory",
    "names_bytes": "names used in the ring",
}


@dataclass
class Result:
    rows: list[tuple[str, str, str, str]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def say(self, what: str, found: Any, expected: Any, right: bool) -> None:
        self.rows.append((what, str(found), str(expected), "ok" if right else "WRONG"))
        if not right:
            self.wrong.append(f"{what}: {found}, expected {expected}")

    def text(self) -> str:
        return "\n".join(f"{word:7} {what:42} {found} ({expected})" for what, found, expected, word in self.rows)

    def table(self) -> list[str]:
        return [
            "| what | found | expected | result |",
            "|---|---|---|---|",
            *[f"| {' | '.join(row)} |" for row in self.rows],
        ]


def judge(folder: Path, job: dict[str, Any]) -> Result:
    result = Result()
    code = int((folder / "code").read_text())
    result.say("exit code", code, 0, code == 0)
    said = {
        s["rank"]: s
        for s in (
            json.loads(line[5:]) for line in (folder / "out.txt").read_text().splitlines() if line.startswith("SOAK ")
        )
    }
    result.say("ranks that came to the end", len(said), job["ranks"], len(said) == job["ranks"])
    _memory(result, [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()])
    if job["bare"] or not said:
        return result
    tapped = {r["rank"]: r for r in json.loads((folder / "tap.json").read_text()).values() if r["evidence"]}
    for rank, own in sorted(said.items()):
        _records(result, rank, Counter(own["count"]), tapped.get(rank))
    path = folder / "logs/soak/final_summary.json"
    result.say("summary written", path.exists(), True, path.exists())
    if path.exists():
        _summary(result, json.loads(path.read_text()), said)
    return result


def _memory(result: Result, samples: list[dict[str, Any]]) -> None:
    """Growth: the median slope over steps after the warm-up, times the steps it was seen over."""
    for name, points in sorted(_series(samples).items()):
        key, _, rank = name.partition(" ")
        title = TITLES[key] + (f", rank {rank}" if rank else "")
        last_step = points[-1][0]
        used = [p for p in points if p[0] >= max(WARM_UP * last_step, WARM_UP_STEPS)]
        if len(used) < MIN_SAMPLES:
            result.rows.append(
                (
                    title,
                    f"{points[-1][1]:,.0f} {_unit(key)} at the end",
                    f"judged from step {WARM_UP_STEPS:,} on",
                    "too short",
                )
            )
            continue
        steps = used[-1][0] - used[0][0]
        growth, allowed = slope(used) * steps, RATE_KIB[key] * steps / 1e6 + (GRAIN_KIB if RATE_KIB[key] else 0)
        found = f"{used[0][1]:,.0f} → {used[-1][1]:,.0f} {_unit(key)}, by slope {growth:+,.0f} in {steps:,} steps"
        result.say(title, found, f"{allowed:+,.0f} at most", growth <= allowed)


def _unit(key: str) -> str:
    return "bytes" if key == "names_bytes" else "KiB"


def _series(samples: list[dict[str, Any]]) -> dict[str, list[tuple[float, float]]]:
    """(steps, value) by what is measured; samples of processes that have left are not in it."""
    series: dict[str, list[tuple[float, float]]] = {}
    for s in samples:
        living = {rank: v for rank, v in s["ranks"].items() if v["rank_kib"] is not None}
        if living and s["agent_kib"]:
            series.setdefault("agent_kib", []).append((min(v["steps"] for v in living.values()), s["agent_kib"]))
        for rank, values in living.items():
            for key in ("rank_kib", "ring_kib", "names_bytes"):
                if key not in values:  # bare: there is no ring
                    continue
                series.setdefault(f"{key} {rank}", []).append((values["steps"], values[key]))
    return series


def slope(points: list[tuple[float, float]]) -> float:
    """Median of the slopes between all pairs (Theil and Sen): a step up or an odd sample does not tilt it, a leak does."""
    return statistics.median(
        (y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in itertools.combinations(points, 2) if x2 > x1
    )


def _records(result: Result, rank: int, own: Counter[str], tapped: dict[str, Any] | None) -> None:
    """The ring as a reader of its own saw it, against the script's own counts."""
    if tapped is None:
        result.say(f"rank {rank}: ring seen", "no", "yes", False)
        return
    result.say(f"rank {rank}: names dropped", tapped["names_dropped"], 0, tapped["names_dropped"] == 0)
    if tapped["missed"]:
        result.rows.append(
            (f"rank {rank}: records", f"{tapped['missed']:,} missed by the runner", "not counted", "skipped")
        )
        return
    # A closure that raises ends optimizer.step in a way of which torch tells nobody: a begin without an end.
    optimizer = own["steps"] + own["caught_in_optimizer"]
    forward = own["steps"] + own["evaluated"] + own["caught_in_forward"] + own["caught_in_backward"]
    backward = own["steps"] + own["caught_in_backward"]
    loaders = own["epochs"] + own["evaluations"] + own["caught_in_loader"]
    want = {
        "steps": own["steps"],
        "steps_begun": optimizer,
        "forwards": forward,
        "forwards_begun": forward,
        "backwards": backward,
        "backwards_begun": backward,
        "loaders": loaders,
        "saves": own["checkpoints"],
        "exceptions": own["thread_exceptions"],
    }
    for name, expected in want.items():
        found = tapped["counts"].get(name, 0)
        result.say(
            f"rank {rank}: records of {name.replace('_', ' ')}", f"{found:,}", f"{expected:,}", found == expected
        )


def _summary(result: Result, summary: dict[str, Any], said: dict[int, dict[str, Any]]) -> None:
    """What the user is told, against the script's own counts and clock."""
    own = said[min(said)]["count"]
    result.say(
        "summary: steps",
        f"{summary['steps']['count']:,}",
        f"{own['steps']:,}",
        summary["steps"]["count"] == own["steps"],
    )
    result.say(
        "summary: epochs",
        f"{summary['epochs']['count']:,}",
        f"{own['epochs']:,}",
        summary["epochs"]["count"] == own["epochs"],
    )
    observer = summary["observer"]
    result.say("summary: records lost", observer["lost"], 0, observer["lost"] == 0)
    result.say("summary: signals unavailable", len(observer["unavailable"]), 0, not observer["unavailable"])
    for row in summary["ledger"]["ranks"]:
        slept = said[row["rank"]]["ms"]
        for category in ("validation", "checkpoint"):
            found, expected = row["categories"][category], slept[category]
            near = abs(found - expected) <= max(0.25 * expected, 50)
            result.say(f"rank {row['rank']}: ms of {category}", f"{found:,.0f}", f"{expected:,.0f} ± 25 %", near)
    lost = [
        f["kind"]
        for f in summary["findings"]
        if f["kind"] in ("RANK_LOST", "NO_DATA", "INCOMPLETE_DATA", "OBSERVER_DEGRADED")
    ]
    result.say("summary: false alarms", lost or "none", "none", not lost)

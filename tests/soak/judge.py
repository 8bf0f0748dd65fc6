"""What must hold after a soak: memory flat, every count right. Reads what the runner kept, judges, makes the table."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

WARM_UP = 0.1  # share of the run before memory is compared
FLAT_KIB = {"rank_kib": 8192, "agent_kib": 4096, "ring_kib": 0, "names_bytes": 0}  # allowed growth; rank: beside torch's own
TITLES = {"rank_kib": "rank, anonymous memory", "agent_kib": "agent, anonymous memory", "ring_kib": "ring in shared memory",
          "names_bytes": "names used in the ring"}


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
        return ["| what | found | expected | result |", "|---|---|---|---|", *[f"| {' | '.join(row)} |" for row in self.rows]]


def judge(folder: Path, job: dict[str, Any]) -> Result:
    result = Result()
    code = int((folder / "code").read_text())
    result.say("exit code", code, 0, code == 0)
    said = {s["rank"]: s for s in (json.loads(line[5:]) for line in (folder / "out.txt").read_text().splitlines() if line.startswith("SOAK "))}
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
    """Growth: the median of the last tenth over the median of the tenth after the warm-up."""
    series: dict[str, list[float]] = {}
    for s in samples:
        if s["agent_kib"]:
            series.setdefault("agent_kib", []).append(s["agent_kib"])
        for rank, values in s["ranks"].items():
            for key in ("rank_kib", "ring_kib", "names_bytes"):
                if values[key] is not None:
                    series.setdefault(f"{key} {rank}", []).append(values[key])
    for name, values in sorted(series.items()):
        key = name.split()[0]
        if len(values) < 20:
            result.say(f"samples of {TITLES[key]}", len(values), "at least 20", False)
            continue
        tenth = max(1, len(values) // 10)
        first = statistics.median(values[int(len(values) * WARM_UP):][:tenth])
        last = statistics.median(values[-tenth:])
        unit = "bytes" if key == "names_bytes" else "KiB"
        title = TITLES[key] + (f", rank {name.split()[1]}" if " " in name else "")
        result.say(title, f"{first:,.0f} → {last:,.0f} {unit}", f"+{FLAT_KIB[key]:,} at most", last - first <= FLAT_KIB[key])


def _records(result: Result, rank: int, own: Counter[str], tapped: dict[str, Any] | None) -> None:
    """The ring as a reader of its own saw it, against the script's own counts."""
    if tapped is None:
        result.say(f"rank {rank}: ring seen", "no", "yes", False)
        return
    result.say(f"rank {rank}: names dropped", tapped["names_dropped"], 0, tapped["names_dropped"] == 0)
    if tapped["missed"]:
        result.rows.append((f"rank {rank}: records", f"{tapped['missed']:,} missed by the runner", "not counted", "skipped"))
        return
    optimizer = own["steps"] + own["caught_in_optimizer"]
    forward = own["steps"] + own["evaluated"] + own["caught_in_forward"] + own["caught_in_backward"]
    backward = own["steps"] + own["caught_in_backward"]
    loaders = own["epochs"] + own["evaluations"] + own["caught_in_loader"]
    want = {"steps": optimizer, "steps_begun": optimizer, "forwards": forward, "forwards_begun": forward, "backwards": backward,
            "backwards_begun": backward, "loaders": loaders, "saves": own["checkpoints"], "exceptions": own["thread_exceptions"]}
    for name, expected in want.items():
        found = tapped["counts"].get(name, 0)
        result.say(f"rank {rank}: records of {name.replace('_', ' ')}", f"{found:,}", f"{expected:,}", found == expected)


def _summary(result: Result, summary: dict[str, Any], said: dict[int, dict[str, Any]]) -> None:
    """What the user is told, against the script's own counts and clock."""
    own = said[min(said)]["count"]
    result.say("summary: steps", f"{summary['steps']['count']:,}", f"{own['steps']:,}", summary["steps"]["count"] == own["steps"])
    result.say("summary: epochs", f"{summary['epochs']['count']:,}", f"{own['epochs']:,}", summary["epochs"]["count"] == own["epochs"])
    observer = summary["observer"]
    result.say("summary: records lost", observer["lost"], 0, observer["lost"] == 0)
    result.say("summary: signals unavailable", len(observer["unavailable"]), 0, not observer["unavailable"])
    for row in summary["ledger"]["ranks"]:
        slept = said[row["rank"]]["ms"]
        for category in ("validation", "checkpoint"):
            found, expected = row["categories"][category], slept[category]
            near = abs(found - expected) <= max(0.25 * expected, 50)
            result.say(f"rank {row['rank']}: ms of {category}", f"{found:,.0f}", f"{expected:,.0f} ± 25 %", near)
    lost = [f["kind"] for f in summary["findings"] if f["kind"] in ("RANK_LOST", "NO_DATA", "INCOMPLETE_DATA", "OBSERVER_DEGRADED")]
    result.say("summary: false alarms", lost or "none", "none", not lost)

"""What the fault bench runs: the fault lab (scripts/), jobs after public reports (reported/) and jobs whose writers did not know
the rules (unseen/ to unseen7/), each with its truth in one shape."""

from __future__ import annotations

import json
import signal
from dataclasses import dataclass, field
from pathlib import Path

import judge

HERE = Path(__file__).resolve().parent
FAMILIES = ("lab", "reported", "unseen", "unseen2", "unseen3", "unseen4", "unseen5", "unseen6", "unseen7")


@dataclass(frozen=True)
class Entry:
    """One job and what is right to say of it.

    ``kinds``: right at warn or crit; "ADVICE:cause" asks for that advice at any severity; () = healthy. ``also``: right beside
    them. ``ranks``: a finding of a right kind may name these only; None = whoever. ``processes``: ranks to launch, 0 = plain
    Python. ``lost_share``: (least, most) of the time, None = not stated.
    """

    family: str
    id: str
    script: Path
    processes: int
    kinds: tuple[str, ...]
    also: tuple[str, ...] = ()
    cause: str | None = None
    ranks: tuple[int, ...] | None = None
    first_step: int | None = None
    lost_share: tuple[float, float] | None = None
    args: tuple[str, ...] = ()
    signal: tuple[int, float] | None = None  # sent to the launcher's group so many seconds after the start
    has_control: bool = True
    exempt: tuple[str, ...] = field(default=())  # kinds that this machine may bring about by itself


def lab() -> list[Entry]:
    """The entries of faults.json."""
    out = []
    for e in json.loads((HERE / "faults.json").read_text())["faults"]:
        script, truth = HERE / "scripts" / e["script"], e["finding"]
        out.append(
            Entry(
                "lab",
                e["id"],
                script,
                e["ranks"],
                tuple(truth["kinds"]),
                also=tuple(truth.get("also", ())),
                cause=truth["cause"],
                ranks=tuple(truth["ranks"]) or None,
                first_step=truth["since_step"],
                args=(*e["args"].split(), "--steps", str(e["steps"])),
                signal=(getattr(signal, e["signal"]["name"]), float(e["signal"]["after_s"]))
                if e.get("signal")
                else None,
                has_control=e["class"] != "control",
                exempt=judge.EXEMPT if judge.fills_cores(e, script) else (),
            )
        )
    return out


def told(family: str) -> list[Entry]:
    """The jobs of a folder with a truth.json."""
    truths = json.loads((HERE / family / "truth.json").read_text())
    return [
        Entry(
            family,
            name.split("_")[0],
            HERE / family / f"{name}.py",
            t["ranks"],
            tuple(t["kinds"]),
            also=tuple(t["also"]),
            ranks=None if t["rank"] is None else (t["rank"],),
            first_step=t["first_step"],
            lost_share=tuple(t["lost_share"]) if t["lost_share"] else None,
        )
        for name, t in truths.items()
    ]


def entries(families: tuple[str, ...] = FAMILIES) -> list[Entry]:
    """All entries of these families."""
    return [e for family in families for e in (lab() if family == "lab" else told(family))]

"""What the observed runs of a project did otherwise than the bare ones. Pure.

An aspect of a test (its outcome, what it raised, its warnings, what it printed) counts when all bare runs agree in it;
else only what is left of it without numbers, if they agree in that; else it is set aside. It differs when an observed run shows anything that no bare run did.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


class Ran(Protocol):
    code: int
    elapsed_s: float
    cpu_s: float
    tests: dict[str, dict[str, Any]]


ASPECTS = ("outcome", "raised", "warnings", "said")


@dataclass
class Verdict:
    tests: int = 0
    passed: int = 0
    flaky: list[str] = field(default_factory=list)  # outcome differs from one bare run to the other
    unsteady: int = 0  # tests with warnings or output that differ from one bare run to the other
    differences: list[str] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)  # their tests
    bare_s: float = 0.0  # sum of the tests' seconds, mean of the bare runs
    observed_s: float = 0.0
    bare_cpu_s: float = 0.0
    observed_cpu_s: float = 0.0

    @property
    def ratio(self) -> float:
        return self.observed_s / self.bare_s if self.bare_s else 1.0


def compare(bare: Sequence[Ran], observed: Sequence[Ran]) -> Verdict:
    verdict = Verdict()
    codes = {a.code for a in bare}
    if len(codes) == 1 and {a.code for a in observed} != codes:
        verdict.differences.append(f"exit code {sorted({a.code for a in observed})}, bare {sorted(codes)}")
    names = list(dict.fromkeys(name for arm in (*bare, *observed) for name in arm.tests))
    verdict.tests = sum(name in bare[0].tests for name in names)
    for name in names:
        _test(verdict, name, [a.tests.get(name) for a in bare], [a.tests.get(name) for a in observed])
    steady = [n for n in names if n not in set(verdict.flaky) and all(n in a.tests for a in (*bare, *observed))]
    verdict.bare_s = _mean([sum(a.tests[n]["seconds"] for n in steady) for a in bare])
    verdict.observed_s = _mean([sum(a.tests[n]["seconds"] for n in steady) for a in observed])
    verdict.bare_cpu_s, verdict.observed_cpu_s = _mean([a.cpu_s for a in bare]), _mean([a.cpu_s for a in observed])
    return verdict


def _test(
    verdict: Verdict, name: str, bare: list[dict[str, Any] | None], observed: list[dict[str, Any] | None]
) -> None:
    verdict.passed += bool(bare[0]) and (
        bare[0]["outcome"].get("call") == "passed" or bare[0]["outcome"].get("exit") == 0
    )
    unsteady = False
    for aspect in ASPECTS:
        words = _word
        usual = {words(t, aspect) for t in bare}
        if len(usual) > 1 and aspect == "outcome":
            verdict.flaky.append(name)
            return
        if len(usual) > 1:  # seconds and the like differ each time: what is left without numbers is compared
            unsteady, words = True, _word_without_numbers
            usual = {words(t, aspect) for t in bare}
            if len(usual) > 1:
                continue
        new = {words(t, aspect) for t in observed} - usual
        if new:
            verdict.differing.append(name)
            verdict.differences.append(f"{name}: {aspect} {' or '.join(sorted(new))[:1500]}; bare {usual.pop()[:1500]}")
            return
    verdict.unsteady += unsteady


def _word_without_numbers(test: dict[str, Any] | None, aspect: str) -> str:
    return re.sub(r"[-+ ]*\d[\d.,:]*(e[-+]?\d+)?", "#", _word(test, aspect))


def _word(test: dict[str, Any] | None, aspect: str) -> str:
    if test is None:
        return "absent"
    value = test[aspect]
    return json.dumps(sorted(value) if isinstance(value, list) else value, sort_keys=True)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0

"""A pytest plugin, the same in both arms: writes what each test did, one JSON line each, to the file THIRDPARTY_OUT.

A line holds the test's outcome in each of its three parts, what it raised, its warnings, what it printed and its seconds.
"""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import Any, TextIO

# What differs from one process to the next: addresses, and folders and files with random names below the temporary folder.
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b|\bid: \d{9,}\b|/tmp/[^\s'\":,)]+")


def plain(text: str) -> str:
    return _ADDRESS.sub("…", text)


class Outcomes:
    def __init__(self, out: TextIO) -> None:
        self.out = out
        self.tests: dict[str, dict[str, Any]] = {}

    def _test(self, nodeid: str) -> dict[str, Any]:
        return self.tests.setdefault(nodeid, {"outcome": {}, "raised": "", "warnings": [], "said": {}, "seconds": 0.0})

    def pytest_runtest_logreport(self, report: Any) -> None:
        test = self._test(report.nodeid)
        test["outcome"][report.when] = report.outcome + (" (xfail)" if hasattr(report, "wasxfail") else "")
        test["seconds"] += report.duration
        crash = getattr(report.longrepr, "reprcrash", None)
        if crash:
            test["raised"] = plain(crash.message)
        if report.when == "teardown":
            test["said"] = {title: plain(text) for title, text in report.sections}

    def pytest_collectreport(self, report: Any) -> None:
        if report.outcome != "passed":
            self._test(f"{report.nodeid} (collection)")["outcome"]["collect"] = report.outcome

    def pytest_warning_recorded(self, warning_message: Any, when: str, nodeid: str, location: Any) -> None:
        at = f"{Path(warning_message.filename).name}:{warning_message.lineno}"
        name = nodeid or f"({when})"
        self._test(name)["warnings"].append(
            f"{warning_message.category.__name__} {at} {plain(str(warning_message.message))}"
        )

    def pytest_sessionfinish(self) -> None:
        for name, test in self.tests.items():
            self.out.write(json.dumps({"test": name, **test}) + "\n")
        times = os.times()
        cpu = times.user + times.system + times.children_user + times.children_system
        self.out.write(json.dumps({"cpu_seconds": cpu, "elapsed_seconds": time.monotonic() - _BEGUN}) + "\n")
        self.out.close()


_BEGUN = time.monotonic()


def pytest_configure(config: Any) -> None:
    path = os.environ.pop("THIRDPARTY_OUT", "")  # a pytest that a test starts is not ours
    if path:
        config.pluginmanager.register(Outcomes(open(path, "w", encoding="utf-8")), "thirdparty-outcomes")

"""`--share K/N`: of the slow tests every N-th one, beginning with the K-th; commits take turns (Makefile), so that N of them
run them all and large families are in every run. Tests that share a fixture of their module stay together."""

from __future__ import annotations

from collections.abc import Iterable

import pytest


def share_of(text: str) -> tuple[int, int]:
    """The numbers of "K/N"; K counts from 0 and may be any number."""
    try:
        k, n = (int(number) for number in text.split("/"))
        return k % n, n
    except (ValueError, ZeroDivisionError):
        raise pytest.UsageError(f"--share {text}: two numbers K/N are asked for, N above 0") from None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--share", default="0/1", metavar="K/N", help="of the slow tests every N-th one from the K-th on")


def is_shared(item: pytest.Item) -> bool:
    return bool(item.get_closest_marker("slow")) and not item.get_closest_marker("long")


def unit(item: pytest.Item) -> str:
    """What has to run together: the module where a fixture is made once for it, else the test."""
    fixtures = item._fixtureinfo.name2fixturedefs.values() if isinstance(item, pytest.Function) else ()
    together = any(defs[-1].scope == "module" for defs in fixtures if defs)
    return item.nodeid.partition("::")[0] if together else item.nodeid


def units_of_share(units: Iterable[str], k: int, n: int) -> set[str]:
    """Every n-th of the different ones, in their order, from the k-th on."""
    return set(list(dict.fromkeys(units))[k::n])


@pytest.hookimpl(tryfirst=True)  # before -m is looked at
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker("slow")
    k, n = share_of(config.getoption("--share"))
    wanted = units_of_share((unit(i) for i in items if is_shared(i)), k, n)
    left = [i for i in items if is_shared(i) and unit(i) not in wanted]
    config.hook.pytest_deselected(items=left)
    items[:] = [i for i in items if not is_shared(i) or unit(i) in wanted]

"""Which of the slow tests a commit runs (conftest.py)."""

from __future__ import annotations

import pathlib

import pytest

pytest_plugins = ["pytester"]

MODULE = """
import pytest

@pytest.fixture(scope="module")
def made_once():
    return 1

def test_quick():
    pass

@pytest.mark.slow
@pytest.mark.long
def test_like_others():
    pass

@pytest.mark.long
def test_long_alone():
    pass

@pytest.mark.slow
@pytest.mark.parametrize("case", range(7))
def test_job(case):
    pass
"""
TOGETHER = """
@pytest.mark.slow
@pytest.mark.parametrize("case", range(5))
def test_of_one_fixture(made_once, case):
    pass
"""


@pytest.fixture
def collected(pytester: pytest.Pytester):
    pytester.makeconftest(pathlib.Path(__file__).with_name("conftest.py").read_text())
    pytester.makeini("[pytest]\nmarkers =\n    slow: x\n    long: x\n")
    pytester.makepyfile(test_a=MODULE, test_b=MODULE + TOGETHER)

    def names(*words: str) -> list[str]:
        result = pytester.runpytest_inprocess("-q", "--collect-only", *words)
        assert result.ret == 0
        return [line for line in result.outlines if "::" in line]

    return names


def test_shares_are_the_whole_and_each_test_is_in_one(collected):
    everything = collected("-m", "slow and not long")
    shares = [collected("-m", "slow and not long", f"--share={k}/3") for k in (4, 5, 6)]
    assert len(everything) == 7 + 7 + 5 and sorted(name for share in shares for name in share) == sorted(everything)
    for share in shares:
        assert sum("test_a.py::test_job" in name for name in share) in (2, 3)
        assert sum("test_of_one_fixture" in name for name in share) in (0, 5)


def test_others_are_in_every_share(collected):
    assert collected("-m", "not slow or long", "--share=1/3") == collected("-m", "not slow or long")


def test_what_is_long_is_slow(collected):
    assert not [name for name in collected("-m", "not slow") if "long" in name]
    assert sum("long_alone" in name for name in collected("-m", "long")) == 2


@pytest.mark.parametrize("text", ["1", "1/0", "a/3"])
def test_what_is_no_share_is_refused(pytester: pytest.Pytester, collected, text):
    result = pytester.runpytest_inprocess("--collect-only", f"--share={text}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*--share {text}: two numbers*"])

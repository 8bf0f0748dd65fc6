"""Losses and gradient norms are told as the program computed them, and nothing of the program's runs because of it."""

from __future__ import annotations

import math
import struct

import pytest
from test_hooks_loops import sections

from stepscope import _kinds as kinds


@pytest.fixture(scope="module")
def hooked(run):
    return run("losses.py").check()


@pytest.fixture(scope="module")
def bare(run):
    return run("losses.py", hooked=False).check()


@pytest.fixture(scope="module")
def numbers(hooked):
    """By part of the job: the losses and the norms that were told, in order."""
    out = {}
    for part, records in sections(hooked.rings[0]).items():
        told = [r for r in records if r.what == "Scalar"]
        value = [(r.a, struct.unpack("d", struct.pack("Q", r.b))[0]) for r in told]
        out[part] = (
            [v for of, v in value if of == kinds.SCALAR_LOSS],
            [v for of, v in value if of == kinds.SCALAR_GRAD_NORM],
        )
    return out


@pytest.mark.parametrize("part", ["plain", "double", "one_element", "masked"])
def test_a_loss_is_told_in_each_step(numbers, part):
    losses, norms = numbers[part]
    assert len(losses) == 3 and all(0 < v < 10 for v in losses) and losses == sorted(losses, reverse=True)
    assert not norms


def test_half_precision_is_read(numbers):
    assert numbers["bfloat16"][0] == numbers["float16"][0] == [1.5] * 3


def test_what_is_not_finite_is_told_as_it_is(numbers):
    assert len(numbers["not_a_number"][0]) == 3 and all(map(math.isnan, numbers["not_a_number"][0]))
    assert numbers["infinite"][0] == [math.inf] * 3


def test_norms_are_those_that_the_program_got(hooked, numbers):
    assert len(numbers["clipped"][1]) == 3
    assert numbers["clipped"][1][-1] == pytest.approx(hooked.said["norms"], rel=1e-12)


def test_learning_rates_are_those_of_the_step(hooked):
    records = sections(hooked.rings[0])["scheduled"]
    told = [r for r in records if r.what == "Scalar" and r.a == kinds.SCALAR_LEARNING_RATE]
    assert [struct.unpack("d", struct.pack("Q", r.b))[0] for r in told] == [0.01, 0.005, 0.0025]
    assert [r.d for r in told] == [hooked.said["tensors"]] * 3


def test_of_several_losses_the_first_counts_last(numbers):
    losses = numbers["several"][0]
    assert len(losses) == 2 and math.isnan(losses[0]) and math.isfinite(losses[1])


@pytest.mark.parametrize("part", ["many_elements", "evaluation", "subclass"])
def test_nothing_is_told_of(numbers, part):
    assert numbers[part] == ([], [])


def test_the_program_sees_nothing_of_it(hooked, bare):
    said, theirs = dict(hooked.said), dict(bare.said)
    assert said == theirs
    assert said["same"] and said["refused"] == "RuntimeError" and said["pickled"] == "clip_grad_norm_"

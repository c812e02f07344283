"""The adversary in its short form: its oracle sees what is false, and nothing false is verified or forged."""

# ruff: noqa: E501

from __future__ import annotations

import gc
import time
from collections.abc import Mapping

import pytest

from superopt.axioms import load_axioms
from superopt.equations import format_equation, parse_equation
from tests.verifier.adversary.families import FAMILIES, equation_of
from tests.verifier.adversary.forge import described as described_forgery
from tests.verifier.adversary.forge import forged, of_axioms, proved
from tests.verifier.adversary.forgeries import FORGERIES
from tests.verifier.adversary.judging import Outcome, all_judged, judged
from tests.verifier.adversary.limits import TooLong, processor_seconds
from tests.verifier.adversary.oracle import judge

FALSE = (
    "softmax[axis=-3](concat[axis=3](x, y)) => concat[axis=3](softmax[axis=-3](x), softmax[axis=-3](y))",
    "reduce_sum[axis=-4](concat[axis=4](x, y)) => concat[axis=4](reduce_sum[axis=-4](x), reduce_sum[axis=-4](y))",
    "softmax[axis=3](bias_add[axis=-3](x, s)) => softmax[axis=3](x)",
    "conv(conv(x, y: f32[5, 3, 1, 1]), z) => conv(x, conv(z, transpose[perm=(1, 0, 2, 3)](y)))",
    "kernel_response(z, kernel_response(y: f32[5, 3, 1, 1], v)) => kernel_response(conv(z, transpose[perm=(1, 0, 2, 3)](y)), v)",
    "full[value=0]() <=> sub(sqrt(x), sqrt(x))",
    "mul(x, y) => mul(sqrt(mul(x, x)), y)",
    "x => div(mul(x, x), x)",
    "sqrt(x) => matmul(sqrt(x), identity_matrix())",
    "conv[padding=same](sqrt(x), w) => conv[padding=same](sqrt(x), enlarge[kernel=3](w))",
    "maxpool[kernel=1, stride=3](upsample_nearest[stride=2](x)) => x",
    "matmul(x: f32[n, n], y: f32[n, n]) => matmul(y, x)",
    "reduce[degree=2](relu(replicate[degree=2](x))) => relu(x)",
    "prelu[axis=a](x, sqrt(s)) => add(relu(x), channel_scale[axis=a](sub(x, relu(x)), sqrt(s)))",
    "partition[axis=0, degree=2](partition[axis=0, degree=3](x)) => partition[axis=0, degree=4](x)",
)
TRUE = (
    "sub(sqrt(x), sqrt(x)) => full[value=0]()",
    "mul(sqrt(x), sqrt(y)) => sqrt(mul(x, y))",
    "div(mul(x, y), y) => x",
    "matmul(sqrt(x), identity_matrix()) => sqrt(x)",
    "partition[axis=0, degree=2](partition[axis=0, degree=3](x)) => partition[axis=0, degree=6](x)",
    "reduce[degree=2](replicate[degree=2](x)) => scale(x, full[value=2, shape=()]())",
    "reduce[degree=2](reduce_sum[axis=0](partition[axis=-3, degree=2](x))) => reduce_sum[axis=-3](x)",
    "add(relu(x), channel_scale[axis=a](sub(x, relu(x)), sqrt(s))) => prelu[axis=a](x, sqrt(s))",
    "upsample_nearest[stride=2](upsample_nearest[stride=3](x)) => upsample_nearest[stride=6](x)",
    "power[exponent=1/2](x) <=> sqrt(x)",
)
EQUATIONS = 50
FORGED = 58


@pytest.mark.parametrize("text", FALSE)
def test_oracle_sees_that_it_is_false(text: str) -> None:
    assert judge(parse_equation(text), 500).false


@pytest.mark.parametrize("text", TRUE)
def test_oracle_sees_nothing_wrong(text: str) -> None:
    found = judge(parse_equation(text), 100)
    assert found.false == ""
    assert found.compared == 100


def test_oracle_finds_no_axiom_false() -> None:
    some = [axiom for axiom in load_axioms().equations if "same" not in format_equation(axiom)][::12]
    answers = {axiom.name: judge(axiom, 20) for axiom in some}
    assert {name: answer.false for name, answer in answers.items() if answer.false} == {}
    assert sum(answer.compared >= 5 for answer in answers.values()) > 0.9 * len(answers)


@pytest.mark.parametrize("family", list(FAMILIES))
def test_each_family_draws_false_equations_and_others(family: str) -> None:
    drawn = [equation for number in range(40) if (equation := equation_of(family, number, 1)) is not None]
    false = [bool(judge(equation, 10).false) for equation in drawn]
    assert 1 <= sum(false) < len(false)


def test_equations_are_drawn_alike_again() -> None:
    texts = [[str(equation_of(family, 3, 2)) for family in FAMILIES] for _ in range(2)]
    assert texts[0] == texts[1]


def test_nothing_false_is_verified() -> None:
    every = list(all_judged(EQUATIONS, 5, time.monotonic() + 600, FAMILIES, None))
    assert [each for each in every if each.outcome is Outcome.HOLE] == []
    assert len({each.family for each in every}) == len(FAMILIES)
    assert {Outcome.CAUGHT, Outcome.RIGHT} <= {each.outcome for each in every}


@pytest.mark.parametrize("text", FALSE)
def test_what_was_verified_once_is_not(text: str) -> None:
    verified = (Outcome.HOLE, Outcome.RIGHT, Outcome.UNSEEN)
    assert judged("", 0, parse_equation(text), 0).outcome not in verified


def test_no_forged_certificate_of_something_false_is_accepted() -> None:
    every = list(forged(FORGED, 3))
    assert [described_forgery(each) for each in every if each.is_hole] == []
    assert len({each.kind for each in every}) > 0.8 * len(FORGERIES)
    assert 0 < sum(each.accepted for each in every) < 0.6 * len(every)


def test_unaltered_certificates_are_there_to_forge() -> None:
    assert len(proved()) > 1000
    assert len(of_axioms()) > 500


class Slow:
    """A destructor that takes half a second, and loses what is raised in it."""

    def __del__(self) -> None:
        end = time.process_time() + 0.5
        while time.process_time() < end:
            pass


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_limit_is_told_again_where_it_was_lost() -> None:
    def endless() -> None:
        slow = Slow()
        del slow
        while True:
            pass

    with pytest.raises(TooLong), processor_seconds(0.05):
        endless()


def test_a_limit_is_told_after_callbacks_of_the_garbage_collector() -> None:
    """What these raise is lost."""

    def busy(_phase: str, _info: Mapping[str, int]) -> None:
        end = time.process_time() + 0.2
        while time.process_time() < end:
            pass

    def endless() -> None:
        gc.collect()
        while True:
            pass

    gc.callbacks.append(busy)
    try:
        with pytest.raises(TooLong), processor_seconds(0.05):
            endless()
    finally:
        gc.callbacks.remove(busy)

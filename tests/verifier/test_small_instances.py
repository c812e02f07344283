"""Small instances: well-typed, repeatable, and of kinds that unification does not find."""

# ruff: noqa: E501

from __future__ import annotations

import numpy as np
import pytest

from superopt.domains import PrimeFieldDomain
from superopt.equations import parse_equation
from superopt.ir.terms import Equation
from superopt.rewriting.conditions import holds
from superopt.rewriting.evaluation import evaluate_terms
from superopt.verifier.instances.drawn import DrawnInstances
from superopt.verifier.instances.instance import Instance
from superopt.verifier.refute.refutation import SIZES
from tests.verifier.rules import RIGHT

WRONG_WHERE_UNIFICATION_DOES_NOT_LOOK = {
    "a response of grouped kernels": "kernel_response(concat[axis=0](y, z), v) => concat[axis=0](kernel_response(y, v), kernel_response(z, v))",
    "a response of kernels with as many channels": "relu(kernel_response(concat[axis=0](y, z), v)) => relu(concat[axis=0](kernel_response(y, v), kernel_response(z, v))) where channels(z) = channels(y)",
    "strides that give equal sizes now and then": "add(bias_add[axis=1](avgpool[kernel=3, stride=s, padding=same](x), y), t) => add(avgpool[kernel=3, stride=3, padding=same](bias_add[axis=1](x, y)), t)",
    "paddings that give equal sizes now and then": "split1[axis=0](conv[stride=s, padding=same](concat[axis=0](x, y), z)) => conv[stride=s, padding=(1, 0, 0, 1)](y, enlarge[kernel=3](z))",
    "a subsampled kernel of columns": "mul(t, conv(maxpool[kernel=1, stride=3](x), y)) => mul(t, conv[stride=3](x, y)) where dim(y, 2) = 1",
    "kernels of sizes that give equal sizes now and then": "avgpool[kernel=k, stride=s, includes_padding=i](concat[axis=1](x, y)) => concat[axis=1](avgpool[kernel=3, stride=s, includes_padding=i](x), avgpool[kernel=k, stride=s, includes_padding=i](y))",
    "outputs of a grouped convolution": "concat[axis=1](conv(x, y), conv(x, z)) => conv(x, concat[axis=0](y, z))",
    "channels of grouped convolutions": "add(conv(x, y), conv(z, w)) => conv(concat[axis=1](x, z), concat[axis=1](y, w))",
}


def _differs(equation: Equation, instance: Instance) -> bool:
    sides = equation.terms
    half = len(equation.left)
    types = [instance.typing.types[side] for side in sides]
    if types[:half] != types[half:]:
        return True
    domain, generator = PrimeFieldDomain(), np.random.default_rng(0)
    arrays = {name: domain.random(generator, 2, type_.shape) for name, type_ in instance.types.items()}
    values = evaluate_terms(sides, instance.typing, domain, arrays)
    return any(np.any(a.residue != b.residue) for a, b in zip(values[:half], values[half:], strict=True))


@pytest.mark.parametrize(
    "text", WRONG_WHERE_UNIFICATION_DOES_NOT_LOOK.values(), ids=WRONG_WHERE_UNIFICATION_DOES_NOT_LOOK
)
def test_a_few_instances_show_what_is_wrong(text: str) -> None:
    equation = parse_equation(text)
    found = [
        any(_differs(equation, each) for each in DrawnInstances(equation, SIZES, seed).instances(60))
        for seed in range(3)
    ]
    assert sum(found) >= 2


@pytest.mark.parametrize("text", RIGHT)
def test_right_rules_hold_at_every_instance(text: str) -> None:
    equation = parse_equation(text)
    instances = list(DrawnInstances(equation, SIZES, 1).instances(12))
    assert len(instances) >= 2
    assert len({str(instance) for instance in instances}) == len(instances)
    for instance in instances:
        assert not _differs(equation, instance), instance
        assert all(holds(condition, instance.types, instance.attributes) for condition in equation.conditions)


def test_the_same_seed_gives_the_same_instances() -> None:
    equation = parse_equation(
        "relu(conv[stride=s, padding=p](x, w)) => conv[stride=s, padding=p, activation=relu](x, w)"
    )
    first, again, other = (
        [str(each) for each in DrawnInstances(equation, SIZES, seed).instances(5)] for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_declared_types_are_kept() -> None:
    equation = parse_equation("add(x: f32[n, 3], y: f32[n, n]) => add(y, x)")
    instances = list(DrawnInstances(equation, SIZES, 1).instances(5))
    assert {str(instance) for instance in instances} == {"x: f32[3, 3], y: f32[3, 3]"}


def test_a_size_that_no_input_has_is_no_decision() -> None:
    """The parts of a divided axis are a number of their own, and trying sizes for it would not end."""
    equation = parse_equation(
        "partition[axis=a, degree=d](upsample_nearest[stride=s](x)) => upsample_nearest[stride=s](x)"
    )
    assert len(list(DrawnInstances(equation, SIZES, 1).instances(20))) <= 20


@pytest.mark.parametrize(
    "text",
    [
        "split0[axis=0](transpose(concat[axis=1](x, y))) => transpose(x)",
        "conv[padding=same, stride=2](x, identity_kernel[kernel=3]()) => maxpool[kernel=1, stride=2](x)",
    ],
)
def test_nothing_is_claimed_where_sizes_left_out_fit_nowhere(text: str) -> None:
    equation = parse_equation(text)
    for instance in DrawnInstances(equation, SIZES, 1).instances(60):
        assert not _differs(equation, instance), instance


def test_declared_kernels_are_grouped() -> None:
    equation = parse_equation("conv(x, relu(y: f32[3, 2, 1, 1])) => conv(x, y)")
    channels = {each.types["x"].shape[1] for each in DrawnInstances(equation, SIZES, 1).instances(60)}
    assert channels == {2, 6}

"""Rules and axioms about divided tensors, judged by plain numpy on shards: an evaluation of its own.

Only the sizes, divisions and attributes that are tried come from the verifier. All rules that ship:
``python -m tests.verifier.test_divided``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import resources

import numpy as np
import pytest

from superopt.axioms import load_axioms
from superopt.equations import parse_equation
from superopt.instances.instance import Instance
from superopt.instances.sampler import InstanceSampler
from superopt.ir.terms import Equation, Term, Variable
from superopt.ir.types import ShardedType
from superopt.ops.base import attributes_of
from superopt.rewriting.divisions import DIVIDING
from superopt.verifier.refute.refutation import BRIEF, refute
from tests.verifier.brute.basics import IllTyped
from tests.verifier.brute.divided import Shards, applied, sharded
from tests.verifier.brute.meaning import GRADIENTS

AXES_ARE_CUT = {"reshape", "broadcast"}
"""Letters do not say how these are divided."""

WRONG = (
    "reduce[degree=d](replicate[degree=d](x)) = x",
    "reduce[degree=d](relu(x)) = relu(reduce[degree=d](x))",
    "partition[axis=0, degree=d](reduce_sum[axis=1](x)) = reduce_sum[axis=1](partition[axis=1, degree=d](x))",
    "combine[axis=0, degree=d](x) = combine[axis=1, degree=d](x)",
    "partition[axis=0, degree=d](partition[axis=0, degree=e](x)) = partition[axis=0, degree=d](x)",
    "reduce[degree=d](scale(x, w)) = scale(reduce[degree=d](x), reduce[degree=d](w))",
)


def test_axioms_about_divided_tensors_hold_shard_by_shard() -> None:
    axioms = load_axioms()
    own = [
        axiom
        for axiom in axioms.equations
        if axioms.families[axiom.name] == "parallel"
        and GRADIENTS.isdisjoint(term.operator for term in axiom.applications)
    ]
    with np.errstate(all="ignore"):
        assert sum(_compared(axiom, schemes=3) for axiom in own[::4]) > len(own[::4])


def test_rules_about_divided_tensors_hold_shard_by_shard() -> None:
    some = list(_shipped())[::16]
    with np.errstate(all="ignore"):
        assert sum(_compared(rule, schemes=2) for rule in some) > len(some)


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_rules_about_divided_tensors_are_found(wrong: str) -> None:
    with pytest.raises((AssertionError, IllTyped)):
        _compared(parse_equation(wrong), schemes=8)


def _shipped() -> Iterator[Equation]:
    lines = (
        resources.files("superopt.substitution_db").joinpath("library.jsonl").read_text("utf-8").splitlines()
    )
    equations = (parse_equation(json.loads(line)["equation"]) for line in lines)
    return (e for e in equations if any(t.operator in DIVIDING for t in e.applications))


def _compared(equation: Equation, schemes: int) -> int:
    """At how many instances both sides are the same shards; fails where they are not."""
    operators = {term.operator for term in equation.applications}
    if operators & AXES_ARE_CUT:
        return 0
    compared = 0
    for instance in InstanceSampler(equation, 5).instances(schemes, 1):
        values = _values(instance)
        for one, other in zip(equation.left, equation.right, strict=True):
            left, right = (_evaluated(side, instance, values) for side in (one, other))
            assert left.layout == right.layout, f"{equation}: {instance}"
            for place, part in left.parts.items():
                same = np.allclose(part, right.parts[place], rtol=1e-6, atol=1e-8, equal_nan=True)
                assert same, f"{equation}: {instance}, at {place}"
        compared += 1
    return compared


def _values(instance: Instance) -> dict[str, Shards]:
    """Numbers of both signs, for every replica its own."""
    random = np.random.default_rng(7)
    found: dict[str, Shards] = {}
    for name, type_ in instance.types.items():
        shape = tuple(size for size in type_.shape if isinstance(size, int))
        divided = type_ if isinstance(type_, ShardedType) else None
        replicas = [random.uniform(-1.0, 2.0, shape) for _ in range(divided.replicas if divided else 1)]
        divisions = divided.divisions if divided else ()
        degrees = tuple(each.degree for each in divisions) or (1,) * len(shape)
        turns = tuple(each.batches for each in divisions) or (1,) * len(shape)
        found[name] = sharded(replicas, degrees, turns)
    return found


def _evaluated(term: Term, instance: Instance, values: dict[str, Shards]) -> Shards:
    if isinstance(term, Variable):
        return values[term.name]
    inputs = [_evaluated(child, instance, values) for child in term.inputs]
    return applied(term.operator, attributes_of(instance.typing.operators[term]), *inputs)


if __name__ == "__main__":
    every = list(_shipped())
    print(f"{sum(_compared(rule, schemes=6) for rule in every)} comparisons of {len(every)} rules")  # noqa: T201


def test_nothing_is_claimed_of_variables_that_are_divided_further() -> None:
    """The rule is false where x is in parts along its rows too, which its combine does not require."""
    rule = parse_equation(
        "combine[axis=a, degree=d](matmul(x, y))"
        " <=> matmul(combine[axis=a, degree=d](x), combine[axis=a, degree=d](y))"
    )
    found = [refute(rule, BRIEF, seed) for seed in range(20)]
    assert [each.counterexample for each in found] == [None] * len(found)
    assert sum(each.well_typed for each in found) > len(found)

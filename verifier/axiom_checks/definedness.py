"""Definedness check of axioms: their directions must preserve defined elements of partial tensors.

Small typed cases are evaluated on partial real numbers: at inputs with zeros and negative numbers, at inputs
of which one element is undefined, each in turn, and at inputs of which some are. Of operators that are total
an output element depends on an undefined one or not, whatever else the inputs are: there, one undefined
element at a time is sufficient. Elements defined on both sides must be equal, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from superopt.domains import Array, PartialArray, PartialDomain
from superopt.errors import IllTypedError
from superopt.instances.drawn import DrawnInstances
from superopt.instances.instance import Instance
from superopt.instances.program import Case, Program
from superopt.instances.sampler import InstanceSampler
from superopt.instances.values import PartialBound
from superopt.ir.terms import Direction, Equation
from superopt.ir.types import TensorType
from superopt.rewriting.evaluation import evaluate_terms
from superopt.verifier.axiom_checks.exhaustive.images import all_cases
from superopt.verifier.refinement import Difference, awkward_inputs, first_difference
from superopt.verifier.refute.refutation import SIZES
from superopt.verifier.seeds import seed_of

Sides = Sequence[tuple[PartialArray, PartialArray]]

_STREAM = 31
_LARGEST = 300
"""Elements of each tensor of an instance beyond the bound."""
_UNDEFINED_ONE_BY_ONE = 12
_OF_BOTH_SIGNS, _POSITIVE = 0, 3
"""Rows of ``awkward_inputs``."""
_MIXED = 3


@dataclass(frozen=True)
class Definedness:
    """In how many cases the axiom was looked at, and where it fails, from left to right and back."""

    cases: int
    forwards: str = ""
    backwards: str = ""

    def offence(self, direction: Direction) -> str:
        """Empty when every direction that is claimed holds, else the first case in which one does not."""
        if self.forwards:
            return f"it loses elements from left to right: {self.forwards}"
        if self.backwards and direction is not Direction.FORWARD:
            return f"it loses elements from right to left, so that `=>` is all it may claim: {self.backwards}"
        return ""


def check_definedness(axiom: Equation, most: int = 400, sampled: int = 12) -> Definedness:
    """Looks at up to ``most`` cases up to 2x2x2x2, at equal distances, and at up to ``sampled`` instances
    beyond; all cases where there are no more.

    Raises IllTypedError for an axiom that cannot be typed.
    """
    forwards = backwards = ""
    cases = 0
    for shown, sides in itertools.chain(_bounded(axiom, most), _beyond(axiom, sampled)):
        cases += 1
        for output, (left, right) in enumerate(sides):
            if not forwards:
                forwards = _told(shown, first_difference(Direction.FORWARD, left, right, output))
            if not backwards:
                lost = first_difference(Direction.FORWARD, right, left, output)
                backwards = _told(shown, lost and Difference(output, lost.place, lost.right, lost.left))
        if forwards and backwards:
            break
    return Definedness(cases, forwards, backwards)


def partial_inputs(generator: np.random.Generator, types: Sequence[TensorType]) -> tuple[PartialArray, ...]:
    """Stacked inputs for all types: real ones, ones with one undefined element, and ones with some. The other
    elements are positive, where most operators are defined, or of both signs: some conditions are false."""
    named = {str(index): type_ for index, type_ in enumerate(types)}
    real = [array.value for array in awkward_inputs(generator, 2, named).values()]
    stacks = [[values] for values in real]
    for row in (_POSITIVE, _OF_BOTH_SIGNS):
        for index, values in enumerate(real):
            holes = _holes(generator, values)
            for other, found in enumerate(stacks):
                base = np.broadcast_to(real[other][row], (len(holes), *real[other].shape[1:])).copy()
                if other == index:
                    base[holes] = np.nan
                found.append(base)
        for values, found in zip(real, stacks, strict=True):
            mixed = np.repeat(values[row : row + 1], _MIXED, axis=0)
            mixed[generator.random(mixed.shape) < 0.2] = np.nan
            found.append(mixed)
    domain = PartialDomain()
    return tuple(domain.exactly(np.concatenate(found)) for found in stacks)


def _holes(generator: np.random.Generator, values: Array) -> Array:
    """One element each: [holes, ...] flags."""
    size = int(np.prod(values.shape[1:]))
    chosen = generator.permutation(size)[:_UNDEFINED_ONE_BY_ONE]
    flags = np.zeros((len(chosen), size), np.bool_)
    flags[np.arange(len(chosen)), chosen] = True
    return flags.reshape((len(chosen), *values.shape[1:]))


def _bounded(axiom: Equation, most: int) -> Iterator[tuple[str, Sides]]:
    program = Program(axiom)
    agreeing = [case for case in all_cases(program, PartialBound()) if case.agree]
    step = max(1, -(-len(agreeing) // most))
    generator = np.random.default_rng(seed_of(axiom, _STREAM))
    for case in agreeing[::step]:
        inputs = partial_inputs(generator, case.types)
        yield _case_text(program, case), program.evaluated(PartialDomain(), case, inputs)


def _beyond(axiom: Equation, sampled: int) -> Iterator[tuple[str, Sides]]:
    generator = np.random.default_rng(seed_of(axiom, _STREAM + 1))
    sampler = InstanceSampler(axiom, seed_of(axiom, _STREAM + 2))
    drawn = itertools.islice(sampler.instances(sampled, 1, _LARGEST), sampled)
    further = DrawnInstances(axiom, SIZES, seed_of(axiom, _STREAM + 3)).instances(sampled)
    for instance in itertools.chain(drawn, further):
        pairs = zip(axiom.left, axiom.right, strict=True)
        types = instance.typing.types
        if any(types[left] != types[right] for left, right in pairs) or _is_large(instance):
            continue
        arrays = partial_inputs(generator, tuple(instance.types.values()))
        inputs = dict(zip(instance.types, arrays, strict=True))
        try:
            values = evaluate_terms(axiom.terms, instance.typing, PartialDomain(), inputs)
        except IllTypedError:
            continue
        half = len(axiom.left)
        yield str(instance), tuple(zip(values[:half], values[half:], strict=True))


def _is_large(instance: Instance) -> bool:
    return any(cast("int", type_.elements) > _LARGEST for type_ in instance.typing.types.values())


def _case_text(program: Program, case: Case) -> str:
    named = [f"{name}: {type_}" for name, type_ in zip(program.names, case.types, strict=True)]
    return ", ".join([*named, *(f"{name}={value}" for name, value in sorted(case.attributes.items()))])


def _told(shown: str, difference: Difference | None) -> str:
    if difference is None:
        return ""
    return f"{shown}: {difference}" if shown else str(difference)


__all__ = ["Definedness", "check_definedness", "partial_inputs"]

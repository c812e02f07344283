"""Typed applications of the operator of an adjoint statement: drawn, sampled, and all up to a bound."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from superopt.equations import Adjoint
from superopt.instances.channels import Sizes
from superopt.instances.drawn import DrawnInstances
from superopt.instances.instance import Instance
from superopt.instances.program import Case, Program
from superopt.instances.sampler import InstanceSampler
from superopt.instances.values import Bound
from superopt.ir.terms import Application, Equation
from superopt.ir.types import ElementType, TensorType
from superopt.rewriting.typing import infer_terms
from superopt.verifier.axiom_checks.exhaustive.images import all_cases
from superopt.verifier.refute.refutation import SIZES
from superopt.verifier.seeds import seed_of

_EQUAL = Sizes(plain=(2,), image=(3,), kernel=(2,), outputs=(2, 4))
"""A gradient with mistaken axes is well-typed where their sizes are equal."""

_SMALLEST = 2
_ENUMERATED = 10
"""Operators with shapes as attributes have millions of cases, of which a part is reached."""


@dataclass(frozen=True)
class AdjointEffort:
    """How many instances are tried.

    The first ``cases`` up to the ``bound``, then every second of as many, then every fourth and so on up to
    ten times as many;
    ``drawn`` small random instances, and as many in which most sizes are equal; ``sampled`` schemes of random
    instances of ranks to 5 and sizes to 7; ``symbolic`` instances for all real inputs.
    """

    bound: Bound = field(default_factory=Bound)
    cases: int = 1000
    drawn: int = 50
    sampled: int = 12
    symbolic: int = 2


THOROUGH = AdjointEffort()
QUICK = AdjointEffort(cases=0, drawn=12, sampled=0, symbolic=0)
"""Tens of milliseconds for each statement."""


@dataclass(frozen=True)
class TypedApplication:
    """Types of the operands and of the result, and values of the attribute variables."""

    operands: tuple[TensorType, ...]
    result: TensorType
    attributes: Mapping[str, object]


@dataclass(frozen=True)
class Applications:
    """The applications for one statement, the same for the same effort."""

    adjoint: Adjoint
    effort: AdjointEffort

    def __iter__(self) -> Iterator[TypedApplication]:
        """Random ones; where few are found, those of which instances of the gradient tell the types; all of
        the bound."""
        found = 0
        for instance in self._random(self._application):
            found += 1
            yield self._of_application(instance)
        if found < self.effort.drawn and isinstance(self.adjoint.gradient, Application):
            for instance in self._random(_alone(self.adjoint.gradient)):
                yield from self._of_gradient(instance)
        if self.effort.cases:
            yield from self._cases()

    def with_element(self, typed: TypedApplication, element: ElementType) -> TypedApplication:
        """The application to operands of another element type. Raises IllTypedError."""
        operands = tuple(replace(type_, element=element) for type_ in typed.operands)
        types = {name.name: type_ for name, type_ in zip(self.adjoint.operands, operands, strict=True)}
        typing = infer_terms((self.adjoint.application,), types, typed.attributes)
        return TypedApplication(operands, typing.types[self.adjoint.application], typed.attributes)

    @cached_property
    def _application(self) -> Equation:
        return _alone(self.adjoint.application)

    def _cases(self) -> Iterator[TypedApplication]:
        """Cases of the smallest sizes, then of all sizes, as far as enumeration goes."""
        program, bound, most = Program(self._application), self.effort.bound, self.effort.cases
        for largest in sorted({min(_SMALLEST, bound.max_dim), bound.max_dim}):
            every = all_cases(program, replace(bound, max_dim=largest))
            for case in _thinned(itertools.islice(every, _ENUMERATED * most), most):
                yield self._of_application(program.instance(case))

    def _random(self, equation: Equation) -> Iterator[Instance]:
        seed = seed_of(equation, 41)
        for sizes in (SIZES, _EQUAL):
            yield from DrawnInstances(equation, sizes, seed).instances(self.effort.drawn)
        if self.effort.sampled:
            yield from InstanceSampler(equation, seed).instances(self.effort.sampled, 2)

    def _of_application(self, instance: Instance) -> TypedApplication:
        operands = tuple(instance.types[operand.name] for operand in self.adjoint.operands)
        return TypedApplication(
            operands, instance.typing.types[self.adjoint.application], instance.attributes
        )

    def _of_gradient(self, instance: Instance) -> Iterator[TypedApplication]:
        """The operand has the type of the gradient; nothing where the gradient lacks another variable."""
        known = {self.adjoint.operand.name: instance.typing.types[self.adjoint.gradient]} | dict(
            instance.types
        )
        operands = tuple(known[operand.name] for operand in self.adjoint.operands if operand.name in known)
        result = known.get(self.adjoint.cotangent.name)
        if len(operands) == len(self.adjoint.operands) and result is not None:
            yield TypedApplication(operands, result, instance.attributes)


def _alone(term: Application) -> Equation:
    """An equation whose instances are those of the term."""
    return Equation((term,), (term,))


def _thinned(cases: Iterator[Case], most: int) -> Iterator[Case]:
    """All of the first ``most``, every second of the next ``most``, every fourth of the next 2 ``most``,
    every eighth of the next 4 ``most`` and so on."""
    for number, case in enumerate(cases):
        if number % (1 << (number // most).bit_length()) == 0:
            yield case


__all__ = ["QUICK", "THOROUGH", "AdjointEffort", "Applications", "TypedApplication"]

"""Equations as straight-line programs: inputs, then applications, addressed by index."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar, cast

from superopt.domains import Domain
from superopt.instances.divided import demanding
from superopt.instances.instance import Instance
from superopt.ir.dimensions import Dimension
from superopt.ir.numbers import names_of, substituted_number
from superopt.ir.terms import Application, Equation, Term, Variable, subterms
from superopt.ir.types import TensorType
from superopt.ops.base import OPERATORS, Operator, attributes_of, operator_from_attributes
from superopt.ops.roles import Divided
from superopt.ops.sharded.parallel import ParallelOperator
from superopt.ops.traits import GROUPED, named
from superopt.rewriting.typing import Typing

COMPUTING_WITH_SIZES = named(
    lambda operator: (
        operator.windowed
        or operator.kernel_input is not None
        or operator.repeats
        or operator.positions is None
    )
)

A = TypeVar("A")
Implicit = Mapping[str, "Dimension | tuple[Dimension, ...]"]


@dataclass(frozen=True)
class Instruction:
    """One application: ``inputs`` and ``place`` index values; ``implicit`` names what the text leaves out."""

    place: int
    term: Application
    inputs: tuple[int, ...]
    implicit: tuple[str, ...]

    @cached_property
    def variables(self) -> tuple[tuple[str, str], ...]:
        """(attribute, name) of each attribute variable, those of calculated numbers included."""
        pairs = self.term.attributes
        return tuple((name, own) for name, value in pairs for own in sorted(names_of(value)))


@dataclass(frozen=True)
class Case:
    """Types of the inputs, values of attribute variables, every operator; whether output types agree."""

    types: tuple[TensorType, ...]
    attributes: Mapping[str, object]
    operators: tuple[Operator, ...]
    outputs: tuple[TensorType, ...]
    agree: bool

    @property
    def key(self) -> object:
        """What tells cases apart but for implicit attributes."""
        return self.types, tuple(sorted((name, repr(value)) for name, value in self.attributes.items()))


@dataclass(frozen=True)
class Program:
    """Both sides of an equation; equal subterms are computed once."""

    equation: Equation
    _operators: dict[object, Operator] = field(default_factory=dict[object, Operator], compare=False)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The inputs; input i is value i."""
        return tuple(term.name for term in self._terms if isinstance(term, Variable))

    @cached_property
    def steps(self) -> tuple[Instruction, ...]:
        """The applications, inputs before what uses them; their values follow the inputs.

        What computes with sizes comes late: until then other applications say which are equal.
        """
        steps: list[Instruction] = []
        places: dict[Term, int] = {Variable(name): i for i, name in enumerate(self.names)}
        for term in _ordered(term for term in self._terms if isinstance(term, Application)):
            implicit = (n for n in OPERATORS[term.operator].implicit if term.attribute(n) is None)
            place = places[term] = len(places)
            steps.append(
                Instruction(place, term, tuple(places[child] for child in term.inputs), tuple(implicit))
            )
        return tuple(steps)

    @cached_property
    def outputs(self) -> tuple[tuple[int, int], ...]:
        """The places of each left and right side."""
        places: dict[Term, int] = {Variable(name): i for i, name in enumerate(self.names)}
        places |= {step.term: step.place for step in self.steps}
        pairs = zip(self.equation.left, self.equation.right, strict=True)
        return tuple((places[left], places[right]) for left, right in pairs)

    @cached_property
    def is_divided(self) -> bool:
        """Whether some tensor is divided."""
        return any(issubclass(OPERATORS[step.term.operator], ParallelOperator) for step in self.steps)

    @cached_property
    def demanding(self) -> Mapping[str, frozenset[Divided]]:
        """The inputs that stand for divided tensors."""
        return demanding(self.equation)

    @cached_property
    def has_implicit(self) -> bool:
        """Whether types determine some attribute."""
        return any(step.implicit for step in self.steps)

    def operator(self, step: Instruction, attributes: Mapping[str, object], implicit: Implicit) -> Operator:
        """The operator of a step; raises IllTypedError for a value that it does not take."""
        values = {name: substituted_number(value, attributes) for name, value in step.term.attributes}
        values |= implicit
        key = (step.place, *values.values())
        found = self._operators.get(key)
        if found is None:
            if len(self._operators) > 1 << 16:
                self._operators.clear()
            found = self._operators[key] = operator_from_attributes(step.term.operator, values)
        return found

    def inferred(self, types: Sequence[TensorType], operators: Sequence[Operator]) -> list[TensorType]:
        """Types of all values; raises IllTypedError."""
        found = list(types)
        for step, operator in zip(self.steps, operators, strict=True):
            found.append(operator.infer(*(found[i] for i in step.inputs))[0])
        return found

    def evaluated(self, domain: Domain[A], case: Case, inputs: Sequence[A]) -> tuple[tuple[A, A], ...]:
        """The values of each left and right side."""
        values = list(inputs)
        types = self.inferred(case.types, case.operators) if self.is_divided else ()
        for step, operator in zip(self.steps, case.operators, strict=True):
            known = tuple([types[i] for i in step.inputs]) if types else ()
            values.append(operator.evaluate_typed(known, domain, tuple([values[i] for i in step.inputs]))[0])
        return tuple((values[left], values[right]) for left, right in self.outputs)

    def implicit_values(self, case: Case) -> tuple[Implicit, ...]:
        """For each step, the attributes that types determined."""
        return tuple(
            {name: cast("Dimension", attributes_of(operator)[name]) for name in step.implicit}
            for step, operator in zip(self.steps, case.operators, strict=True)
        )

    def instance(self, case: Case) -> Instance:
        """The case as the rest of the verifier knows it."""
        inferred = self.inferred(case.types, case.operators)
        types: dict[Term, TensorType] = {
            Variable(name): t for name, t in zip(self.names, case.types, strict=True)
        }
        types |= {step.term: inferred[step.place] for step in self.steps}
        operators = {step.term: operator for step, operator in zip(self.steps, case.operators, strict=True)}
        named = dict(zip(self.names, case.types, strict=True))
        return Instance(named, case.attributes, Typing(types, operators, {}))

    @cached_property
    def _terms(self) -> tuple[Term, ...]:
        return tuple(subterms(*self.equation.terms))


def _ordered(waiting: Iterable[Application]) -> Iterator[Application]:
    """Those that compute with sizes as late as can be, grouped ones last; a constant where it is used."""
    left = list(waiting)
    done: set[Term] = set()
    while left:
        ready = [term for term in left if all(_is_there(child, done) for child in term.inputs)]
        chosen = min(ready, key=_lateness)
        constants = (child for child in chosen.inputs if child in left and not child.inputs)
        for term in dict.fromkeys((*constants, chosen)):
            yield term
            done.add(term)
            left.remove(term)


def _lateness(term: Application) -> int:
    if not term.inputs:
        return 3
    return 2 if term.operator in GROUPED else term.operator in COMPUTING_WITH_SIZES


def _is_there(term: Term, done: Container[Term]) -> bool:
    return isinstance(term, Variable) or not term.inputs or term in done

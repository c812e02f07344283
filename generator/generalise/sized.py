"""Both sides of an equation at one scheme, as a straight-line program over shared types, at any sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from superopt.errors import IllTypedError
from superopt.generator.generalise.shared_types import Mismatch, OperatorId, SharedTypes, TypeId
from superopt.generator.generalise.shared_values import SharedValues, ValueId
from superopt.instances.schemes import Scheme
from superopt.ir.dimensions import Dimension
from superopt.ir.terms import Application, Equation, Term, Variable, subterms
from superopt.ops.attributes import substituted
from superopt.rewriting.conditions import holds


@dataclass(frozen=True, slots=True)
class Step:
    """A variable, or an application to values at the places of its inputs."""

    name: str
    type: TypeId
    operator: OperatorId
    inputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Sized:
    """Types and operators of all steps at some sizes; the operator of a variable is -1."""

    types: tuple[TypeId, ...]
    operators: tuple[OperatorId, ...]


@dataclass(frozen=True)
class SchemeProgram:
    """An equation at a scheme."""

    shared: SharedTypes
    equation: Equation
    scheme: Scheme

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """All subterms of both sides, inputs first."""
        shared, typing = self.shared, self.scheme.typing
        found: list[Step] = []
        for term in self._places:
            if isinstance(term, Variable):
                found.append(Step(term.name, shared.of(self.scheme.types[term.name]), -1, ()))
            else:
                inputs = tuple([self._places[child] for child in term.inputs])
                number = shared.operator_id(typing.operators[term])
                found.append(Step("", shared.of(typing.types[term]), number, inputs))
        return tuple(found)

    @cached_property
    def outputs(self) -> tuple[tuple[int, int], ...]:
        """The places of the sides."""
        pairs = zip(self.equation.left, self.equation.right, strict=True)
        return tuple([(self._places[left], self._places[right]) for left, right in pairs])

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        """The symbols in types and in attributes of operators."""
        shared = self.shared
        named = [shared.symbols(step.type) for step in self.steps]
        named += [shared.operator_symbols(step.operator) for step in self.steps if step.operator >= 0]
        return tuple(sorted(frozenset[str]().union(*named)))

    def convolved(self, terms: tuple[Application, ...]) -> tuple[tuple[int, ...], ...]:
        """The places of the inputs of these terms."""
        return tuple([tuple([self._places[child] for child in term.inputs]) for term in terms])

    def at(self, sizes: Mapping[str, Dimension], largest: int) -> Sized | None:
        """The steps at these sizes; None where one is ill-typed, has a size that is not positive or more than
        ``largest`` elements, or where a condition does not hold."""
        shared = self.shared
        types: list[TypeId] = []
        operators: list[OperatorId] = []
        for step in self.steps:
            operator = step.operator
            if operator < 0:
                types.append(shared.substituted(step.type, sizes))
            else:
                try:
                    operator = shared.operator_with(operator, sizes)
                except IllTypedError:
                    return None
                output = shared.inferred(operator, tuple([types[place] for place in step.inputs]))
                if output is None or isinstance(output, Mismatch):
                    return None
                types.append(output)
            operators.append(operator)
        if not all(0 < shared.elements(number) <= largest for number in types):
            return None
        return Sized(tuple(types), tuple(operators)) if self._holds(types, sizes) else None

    def evaluated(self, sized: Sized, values: SharedValues, sample: int) -> list[ValueId] | None:
        """The values of all steps; None where variables have to carry more than was known.

        Raises IllTypedError where an operator cannot be applied.
        """
        shared = self.shared
        carried = values.carried(sized.operators)
        found: list[ValueId] = []
        for step, type_, operator in zip(self.steps, sized.types, sized.operators, strict=True):
            if operator < 0:
                shape = tuple([d for d in shared.type(type_).array_shape if isinstance(d, int)])
                found.append(values.variable(step.name, shape, sample, carried))
                continue
            number = shared.bound_operator(operator, tuple([sized.types[place] for place in step.inputs]))
            inputs = tuple([found[place] for place in step.inputs])
            value = values.applied(number, shared.operator(number), inputs, carried)
            if value is None:
                values.need(operator, carried + 1)
                return None
            found.append(value)
        return found

    def _holds(self, types: list[TypeId], sizes: Mapping[str, Dimension]) -> bool:
        """Whether the conditions hold."""
        if not self.equation.conditions:
            return True
        pairs = zip(self.steps, types, strict=True)
        named = {step.name: self.shared.type(type_) for step, type_ in pairs if step.operator < 0}
        attributes = {name: substituted(value, sizes) for name, value in self.scheme.attributes.items()}
        return all(holds(condition, named, attributes) for condition in self.equation.conditions)

    @cached_property
    def _places(self) -> dict[Term, int]:
        return {term: place for place, term in enumerate(subterms(*self.equation.terms))}

"""Well-typed instances found by trying small shapes, where unification would look for general ones.

Unification describes most types by symbols, but not all: it makes a convolution plain although it may be
grouped, and it cannot say for which sizes strides of 2 and of 3 give outputs of equal size. What it leaves
out is found here by choosing numbers first: a shape for each variable, and each application asked as soon as
its inputs are known. Attributes that types determine are solved for at the end, when all sizes are numbers.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from superopt.errors import IllTypedError
from superopt.ir.terms import (
    Application,
    AttributeVariable,
    Equation,
    Term,
    Variable,
    applications,
    attribute_variables,
    variables,
)
from superopt.ir.types import ElementType, TensorType
from superopt.ops.base import OPERATORS, operator_from_attributes
from superopt.ops.traits import GROUPED, HALVES
from superopt.rewriting.conditions import as_declared, holds, names_in
from superopt.rewriting.typing import Typing, infer_terms
from superopt.verifier.attributes import plausible_values
from superopt.verifier.concrete import require_sizes
from superopt.verifier.instance import Instance
from superopt.verifier.small_shapes import SmallShapes

MAX_ELEMENTS = 1500
_SHAPES_PER_VARIABLE = 12
_TRIES_PER_INSTANCE = 8
_PATIENCE = 120
"""So many attempts in a row without a new instance, and there is likely none."""

_AS_ANOTHER = 0.4
"""How often a variable gets the type of another one, and a half the cut of another: rules tend to need it."""


def enumerated(equation: Equation, seed: int, count: int) -> Iterator[Instance]:
    """Up to ``count`` different instances at which the conditions hold; the same for the same seed.

    Both sides are well-typed in each; the types of outputs differ only where nothing can make them equal.
    """
    trial = _Trial(equation, random.Random(seed))
    met: set[str] = set()
    in_vain = 0
    patience = _PATIENCE if trial.has_choices else 1
    for _ in range(_TRIES_PER_INSTANCE * count):
        instance = trial.instance()
        in_vain += 1
        if instance is not None and str(instance) not in met:
            met.add(str(instance))
            in_vain = 0
            yield instance
        if len(met) == count or in_vain == patience:
            return


class _Trial:
    def __init__(self, equation: Equation, generator: random.Random) -> None:
        self._equation = equation
        self._random = generator
        self._shapes = SmallShapes(generator)
        self._sides = (*equation.left, *equation.right)
        self._pairs = list(zip(equation.left, equation.right, strict=True))
        self._names = variables(*self._sides)
        self._declared = dict(equation.types)
        self._steps = in_order(self._sides)
        conditions = [(condition, names_in(condition)) for condition in equation.conditions]
        self._conditions_on = {
            name: [(condition, names) for condition, names in conditions if name in names]
            for name in self._names
        }
        self._uses: dict[Variable, tuple[Application, ...]] = {
            term: tuple(t for t in self._steps if isinstance(t, Application) and term in t.inputs)
            for term in self._steps
            if isinstance(term, Variable)
        }

    @property
    def has_choices(self) -> bool:
        """Whether another attempt may come to another end."""
        return bool(self._names or attribute_variables(*self._sides))

    def instance(self) -> Instance | None:
        """One random attempt; None when it ends in operands that do not fit."""
        types: dict[Term, TensorType] = {}
        attributes: dict[str, object] = {}
        cuts: dict[tuple[Term, int], int] = {}
        for term in self._steps:
            if term in types:
                continue
            if isinstance(term, Variable):
                if not self._choose(term, types, attributes, cuts):
                    return None
            elif not self._apply(term, types, attributes, cuts):
                return None
        return self._typed({name: types[Variable(name)] for name in self._names}, attributes, cuts)

    def _choose(
        self,
        variable: Variable,
        types: dict[Term, TensorType],
        attributes: dict[str, object],
        cuts: dict[tuple[Term, int], int],
    ) -> bool:
        """Gives the variable a random type, under which its next use is well-typed if that can be asked."""
        user = next(iter(self._uses[variable]), None)
        inputs = () if user is None else user.inputs
        complete = user is not None and all(child in types or child == variable for child in inputs)
        for _ in range(_SHAPES_PER_VARIABLE * (1 + len(self._conditions_on[variable.name]))):
            type_ = self._random_type(variable, types, attributes)
            if type_ is None or not self._admits(variable.name, type_, types, attributes):
                continue
            if user is None or not complete:
                types[variable] = type_
                return True
            own_types, own_attributes, own_cuts = {**types, variable: type_}, {**attributes}, {**cuts}
            if self._apply(user, own_types, own_attributes, own_cuts):
                types.update(own_types)
                attributes.update(own_attributes)
                cuts.update(own_cuts)
                return True
        return False

    def _admits(
        self,
        name: str,
        type_: TensorType,
        types: Mapping[Term, TensorType],
        attributes: Mapping[str, object],
    ) -> bool:
        """Whether the conditions on a variable hold that can be decided by now."""
        known = {term.name: own for term, own in types.items() if isinstance(term, Variable)} | {name: type_}
        return all(
            holds(condition, known, attributes)
            for condition, names in self._conditions_on[name]
            if names <= known.keys() | attributes.keys()
        )

    def _random_type(
        self,
        variable: Variable,
        types: Mapping[Term, TensorType],
        attributes: Mapping[str, object],
    ) -> TensorType | None:
        """A type that is likely to suit the most demanding use; None for one that is not as declared."""
        declared = self._declared.get(variable.name)
        known = {term.name: own for term, own in types.items() if isinstance(term, Variable)}
        if known and declared is None and self._random.random() < _AS_ANOTHER:
            return self._random.choice(list(known.values()))
        if declared is not None:
            shape = self._shapes.declared(declared.shape)
        else:
            uses = sorted(self._uses[variable], key=lambda term: term.operator not in GROUPED)
            user = next(iter(uses), None)
            siblings = () if user is None else [types.get(child) for child in user.inputs]
            position = 0 if user is None else user.inputs.index(variable)
            axis = None if user is None else _value(user, "axis", attributes)
            name = "" if user is None else user.operator
            shape = self._shapes.operand(name, position, siblings, axis)
        type_ = TensorType(ElementType.FLOAT, shape)
        fits = as_declared(self._declared.items(), {**known, variable.name: type_})
        return type_ if fits and _is_small(type_) else None

    def _apply(
        self,
        term: Application,
        types: dict[Term, TensorType],
        attributes: dict[str, object],
        cuts: dict[tuple[Term, int], int],
    ) -> bool:
        """Types the term, choosing its attribute variables; without types of all inputs it stays untyped."""
        inputs = [types[child] for child in term.inputs if child in types]
        for attribute, value in term.attributes:
            if isinstance(value, AttributeVariable) and value.name not in attributes:
                pool = plausible_values(attribute, inputs)
                if not pool:
                    return False
                attributes[value.name] = self._random.choice(pool)
        values = {name: _value(term, name, attributes) for name, _ in term.attributes}
        if term.operator in HALVES and inputs and "size" not in values:
            cut = self._cut(term, inputs[0], types, attributes, cuts)
            if cut is None:
                return False
            values["size"] = cut
        known = len(inputs) == len(term.inputs)
        if not known or any(name not in values for name in OPERATORS[term.operator].implicit):
            return True
        try:
            (type_,) = operator_from_attributes(term.operator, values).infer(*inputs)
            require_sizes(type_)
        except IllTypedError:
            return False
        types[term] = type_
        return _is_small(type_)

    def _cut(
        self,
        half: Application,
        whole: TensorType,
        types: Mapping[Term, TensorType],
        attributes: Mapping[str, object],
        cuts: dict[tuple[Term, int], int],
    ) -> int | None:
        """Where the half is cut: with the other half, where the operands of a concat meet, or anywhere."""
        (term,) = half.inputs
        axis = _value(half, "axis", attributes)
        if not isinstance(axis, int) or not -whole.rank <= axis < whole.rank:
            return None
        place = (term, axis % whole.rank)
        size = cast("int", whole.shape[axis])
        if place not in cuts and size > 1:
            others = [cut for cut in cuts.values() if cut < size]
            again = others and self._random.random() < _AS_ANOTHER
            cuts[place] = self._random.choice(others) if again else self._random.randrange(1, size)
            if isinstance(term, Application) and OPERATORS[term.operator].joins:
                own = _value(term, "axis", attributes)
                if isinstance(own, int) and own % whole.rank == place[1] and term.inputs[0] in types:
                    cuts[place] = cast("int", types[term.inputs[0]].shape[axis])
        return cuts.get(place)

    def _typed(
        self,
        types: Mapping[str, TensorType],
        attributes: Mapping[str, object],
        cuts: Mapping[tuple[Term, int], int],
    ) -> Instance | None:
        if not all(holds(condition, types, attributes) for condition in self._equation.conditions):
            return None
        free: Mapping[tuple[Term, int], int] = {}
        for equal, chosen in ((self._pairs, cuts), (self._pairs, free), ([], free)):
            typing = _infer(self._sides, types, attributes, equal, chosen)
            if typing is not None:
                return Instance(types, attributes, typing)
        return None


def in_order(sides: Sequence[Term]) -> tuple[Term, ...]:
    """All subterms, inputs first, each application as soon as the fewest new variables allow."""
    waiting = list(applications(*sides))
    placed: dict[Term, None] = {}
    while waiting:
        ready = [t for t in waiting if all(isinstance(c, Variable) or c in placed for c in t.inputs)]
        term = min(ready, key=lambda t: len(set(t.inputs) - placed.keys()))
        placed |= dict.fromkeys((*term.inputs, term))
        waiting.remove(term)
    return tuple(placed | dict.fromkeys(sides))


def _infer(
    sides: Sequence[Term],
    types: Mapping[str, TensorType],
    attributes: Mapping[str, object],
    equal: Sequence[tuple[Term, Term]],
    cuts: Mapping[tuple[Term, int], int],
) -> Typing | None:
    """A typing in which everything is a positive number and no tensor is large."""
    try:
        typing = infer_terms(sides, types, attributes, equal=equal, cuts=dict(cuts))
        if typing.unresolved:
            return None
        for type_ in typing.types.values():
            require_sizes(type_)
    except IllTypedError:
        return None
    return typing if all(map(_is_small, typing.types.values())) else None


def _value(term: Application, name: str, attributes: Mapping[str, object]) -> object:
    value = term.attribute(name)
    return attributes.get(value.name) if isinstance(value, AttributeVariable) else value


def _is_small(type_: TensorType) -> bool:
    return cast("int", type_.elements) <= MAX_ELEMENTS

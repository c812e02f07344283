"""Well-typed instances of an equation: ranks, attribute values and sizes, found by unification and by chance.

A *scheme* fixes the rank of every variable and the value of every attribute variable and leaves sizes as
symbols; unification makes both sides well-typed. An *instance* gives every symbol a number. Sizes are chosen
to be awkward: 1, coprime, unequal, channels in groups, halves that are no halves.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from superopt.equations import format_attribute
from superopt.errors import DimensionMismatchError, IllTypedError, RankMismatchError
from superopt.ir.dimensions import Dimension, solve, symbol
from superopt.ir.terms import (
    Application,
    AttributeVariable,
    Equation,
    Term,
    Variable,
    applications,
    variables,
)
from superopt.ir.types import ELEMENT_TYPES_BY_SHORT_NAME, ElementType, TensorType
from superopt.rewriting.conditions import holds
from superopt.rewriting.typing import Typing, infer_terms
from verifier.attributes import plausible_values
from verifier.concrete import operator_symbols, resolved, substituted
from verifier.requirements import impose, solve_rounded

MAX_ELEMENTS = 3000
_RANKS = (2, 4, 3, 1, 0, 5)
_SIZES = (1, 2, 2, 3, 3, 4, 5)
_SMALL_SIZES = (1, 2, 2, 3)
_SPATIAL_SIZES = (1, 2, 3, 4, 5, 6, 7)
_KERNEL_SIZES = (1, 2, 3, 3, 5)
_GROUPS = ((2, 1, 1), (2, 1, 2), (2, 2, 1), (3, 1, 1), (3, 1, 2), (2, 2, 2))
_TRIES_PER_SCHEME = 300


@dataclass(frozen=True)
class Scheme:
    """Ranks and attribute values under which both sides are well-typed; sizes are symbols."""

    types: Mapping[str, TensorType]
    attributes: Mapping[str, object]
    typing: Typing


@dataclass(frozen=True)
class Instance:
    """Types, attribute values and resolved operators of every subterm of both sides, all sizes numbers."""

    types: Mapping[str, TensorType]
    attributes: Mapping[str, object]
    typing: Typing

    def __str__(self) -> str:
        named = [f"{name}: {type_}" for name, type_ in sorted(self.types.items())]
        named += [f"{name}={_written(value)}" for name, value in sorted(self.attributes.items())]
        return ", ".join(named)


class InstanceSampler:
    """A stream of well-typed instances of one equation, the same for the same seed."""

    def __init__(self, equation: Equation, seed: int) -> None:
        self.equation = equation
        self._random = random.Random(seed)
        self._terms = (*equation.left, *equation.right)
        self._orders = (
            tuple(applications(*self._terms)),
            tuple(applications(*equation.right, *equation.left)),
        )
        self._applications = self._orders[0]
        self._names = variables(*self._terms)
        self._kernels = frozenset(_kernel_symbols(self._applications))
        self._impossible: set[tuple[object, ...]] = set()
        self._tries = 0

    def schemes(self, count: int) -> Iterator[Scheme]:
        """Up to ``count`` random schemes; gives up early when eight searches in a row find none."""
        failures = 0
        for _ in range(count):
            self._tries = _TRIES_PER_SCHEME
            self._applications = self._random.choice(self._orders)
            scheme = self._extend(self._declared(), {}, 0)
            failures = 0 if scheme else failures + 1
            if scheme is not None:
                yield scheme
            elif failures == 8:
                return

    def instances(self, schemes: int, per_scheme: int, largest: int = MAX_ELEMENTS) -> Iterator[Instance]:
        """Instances whose tensors have at most ``largest`` elements and whose conditions hold."""
        for scheme in self.schemes(schemes):
            found = 0
            for _ in range(10 * per_scheme):
                instance = self.concretise(scheme, largest)
                found += instance is not None
                if instance is not None:
                    yield instance
                if found == per_scheme:
                    break

    def concretise(self, scheme: Scheme, largest: int = MAX_ELEMENTS) -> Instance | None:
        """Numbers for the symbols; None when these numbers make a side ill-typed or break a condition."""
        numbers: dict[str, Dimension] = {name: self._number(name, largest) for name in _free_symbols(scheme)}
        try:
            typing = resolved(scheme.typing, self._applications, scheme.types, numbers)
        except IllTypedError:
            return None
        if any(cast("int", type_.elements) > largest for type_ in typing.types.values()):
            return None
        types = {name: typing.types[Variable(name)] for name in self._names}
        attributes = {name: substituted(value, numbers) for name, value in scheme.attributes.items()}
        if not all(holds(condition, types, attributes) for condition in self.equation.conditions):
            return None
        return Instance(types, attributes, typing)

    def _number(self, name: str, largest: int) -> int:
        if largest < 100:
            return self._random.choice(_SMALL_SIZES)
        if name in self._kernels:
            return self._random.choice(_KERNEL_SIZES)
        return self._random.choice(_SPATIAL_SIZES if name.endswith((".2", ".3")) else _SIZES)

    def _declared(self) -> dict[str, TensorType]:
        types: dict[str, TensorType] = {}
        for name, declared in self.equation.types:
            element = ELEMENT_TYPES_BY_SHORT_NAME.get(declared.element)
            if element is None:
                raise IllTypedError(f"{name}: unknown element type {declared.element}")
            types[name] = TensorType(
                element, tuple(d if isinstance(d, int) else symbol(d) for d in declared.shape)
            )
        return types

    def _extend(
        self, types: dict[str, TensorType], attributes: dict[str, object], position: int
    ) -> Scheme | None:
        """Depth first over ranks and attribute values, one application after another, inputs first."""
        if position == len(self._applications):
            return self._complete(types, attributes)
        term = self._applications[position]
        for extended in self._rank_choices(term, types):
            for chosen in self._attribute_choices(term, extended, attributes):
                self._tries -= 1
                if self._tries < 0:
                    return None
                typed = self._typed(term, extended, chosen)
                found = None if typed is None else self._extend(typed, chosen, position + 1)
                if found is not None:
                    return found
        return None

    def _rank_choices(
        self, term: Application, types: dict[str, TensorType]
    ) -> Iterator[dict[str, TensorType]]:
        """Types of fresh ranks for the variables that the term meets first, in random order."""
        missing = [name for name in _variable_inputs(term) if name not in types]
        choices = list(itertools.product(_RANKS, repeat=len(missing)))
        self._random.shuffle(choices)
        for ranks in choices:
            if (term, tuple(missing), ranks) in self._impossible:
                continue
            fresh = {name: self._fresh_type(name, rank) for name, rank in zip(missing, ranks, strict=True)}
            if missing and not self._possible(term, fresh):
                self._impossible.add((term, tuple(missing), ranks))
                continue
            yield types | fresh

    def _possible(self, term: Application, fresh: Mapping[str, TensorType]) -> bool:
        """Whether an application of these variables alone can have these ranks, whatever its attributes."""
        if not all(isinstance(child, Variable) and child.name in fresh for child in term.inputs):
            return True
        open_types = {
            name: TensorType(type_.element, tuple(symbol(f"{name}.{axis}") for axis in range(type_.rank)))
            for name, type_ in fresh.items()
        }
        for attributes in self._attribute_choices(term, open_types, {}):
            try:
                infer_terms((term,), open_types, attributes)
            except RankMismatchError:
                continue
            except IllTypedError:
                pass
            return True
        return False

    def _attribute_choices(
        self, term: Application, types: Mapping[str, TensorType], chosen: dict[str, object]
    ) -> Iterator[dict[str, object]]:
        open_names = [
            (attribute, value.name)
            for attribute, value in term.attributes
            if isinstance(value, AttributeVariable) and value.name not in chosen
        ]
        if not open_names:
            yield chosen
            return
        inputs = _input_types(term, types, chosen)
        pools = [plausible_values(term.operator, attribute, inputs or ()) for attribute, _ in open_names]
        if inputs is None or not all(pools):
            return
        for _ in range(4):
            yield chosen | {
                name: self._random.choice(pool) for (_, name), pool in zip(open_names, pools, strict=True)
            }

    def _typed(
        self, term: Application, types: dict[str, TensorType], attributes: Mapping[str, object]
    ) -> dict[str, TensorType] | None:
        """The types with symbols replaced by what makes the term well-typed; None when nothing does."""
        if term.operator == "conv" and self._random.random() < 0.5:
            types = self._grouped(term, types, attributes) or types
        for _ in range(3):
            try:
                typing = infer_terms((term,), _needed((term,), types), attributes)
            except DimensionMismatchError as mismatch:
                solution = solve_rounded(mismatch.left, mismatch.right)
                if not solution:
                    return None
                types = {name: type_.substitute(solution) for name, type_ in types.items()}
            except IllTypedError:
                return None
            else:
                return {name: type_.substitute(typing.assignment) for name, type_ in types.items()}
        return None

    def _grouped(
        self, term: Application, types: dict[str, TensorType], attributes: Mapping[str, object]
    ) -> dict[str, TensorType] | None:
        """Sizes that make a convolution grouped; unification alone would make it plain."""
        inputs = _input_types(term, types, attributes)
        if inputs is None or [type_.rank for type_ in inputs] != [4, 4]:
            return None
        data, weight = inputs
        groups, per_group, multiple = self._random.choice(_GROUPS)
        wanted = (
            (data.shape[1], groups * per_group),
            (weight.shape[1], per_group),
            (weight.shape[0], groups * multiple),
        )
        return _with_sizes(types, wanted)

    def _fresh_type(self, name: str, rank: int) -> TensorType:
        ones = [self._random.random() < 0.06 for _ in range(rank)]
        return TensorType(
            ElementType.FLOAT, tuple(1 if one else symbol(f"{name}.{axis}") for axis, one in enumerate(ones))
        )

    def _complete(self, types: dict[str, TensorType], attributes: dict[str, object]) -> Scheme | None:
        """Both sides typed together.

        Output types are unified, but first without touching the sizes of variables: where that fails although
        both sides are well-typed, the equation may claim equality of values of different types, and the
        instances must show it.
        """
        fresh = {
            name: self._fresh_type(name, self._random.choice(_RANKS))
            for name in self._names
            if name not in types
        }
        imposed = impose(self.equation.conditions, types | fresh, attributes)
        own = frozenset[str]().union(*(type_.symbols for type_ in imposed.values()))
        pairs = list(zip(self.equation.left, self.equation.right, strict=True))
        typing = _infer(self._terms, imposed, attributes, pairs, own)
        if typing is None:
            typing = _infer(self._terms, imposed, attributes)
            if typing is None or typing.unresolved:
                typing = _infer(self._terms, imposed, attributes, pairs)
        if typing is None:
            return None
        solved = {name: type_.substitute(typing.assignment) for name, type_ in imposed.items()}
        return Scheme(solved, attributes, typing)


def _kernel_symbols(terms: Sequence[Application]) -> Iterator[str]:
    """The symbols of sizes of kernels among the variables, which are chosen smaller than images."""
    for term in terms:
        kernel = {"conv": 1, "enlarge": 0, "kernel_response": 0}.get(term.operator)
        if kernel is None or kernel >= len(term.inputs):
            continue
        for name in variables(term.inputs[kernel]):
            yield from (f"{name}.2", f"{name}.3")


def _variable_inputs(term: Application) -> list[str]:
    return list(dict.fromkeys(child.name for child in term.inputs if isinstance(child, Variable)))


def _infer(
    terms: Sequence[Term],
    types: Mapping[str, TensorType],
    attributes: Mapping[str, object],
    equal: Sequence[tuple[Term, Term]] = (),
    fixed: frozenset[str] = frozenset(),
) -> Typing | None:
    try:
        return infer_terms(terms, _needed(terms, types), attributes, equal=equal, fixed=fixed)
    except IllTypedError:
        return None


def _needed(terms: Sequence[Term], types: Mapping[str, TensorType]) -> dict[str, TensorType]:
    return {name: types[name] for name in variables(*terms) if name in types}


def _input_types(
    term: Application, types: Mapping[str, TensorType], attributes: Mapping[str, object]
) -> tuple[TensorType, ...] | None:
    typing = _infer(term.inputs, types, attributes)
    return None if typing is None else tuple(typing.types[child] for child in term.inputs)


def _with_sizes(
    types: Mapping[str, TensorType], wanted: Sequence[tuple[Dimension, int]]
) -> dict[str, TensorType] | None:
    """The types after solving ``dimension = size`` one after another; None when one cannot be solved."""
    solved = dict(types)
    assignment: dict[str, Dimension] = {}
    for dimension, size in wanted:
        solution = solve(substituted_dimension(dimension, assignment), size)
        if solution is None:
            return None
        assignment |= solution
        solved = {name: type_.substitute(solution) for name, type_ in solved.items()}
    return solved


def substituted_dimension(dimension: Dimension, assignment: Mapping[str, Dimension]) -> Dimension:
    """The dimension after all substitutions of the assignment."""
    return cast("Dimension", substituted(dimension, assignment))


def _free_symbols(scheme: Scheme) -> list[str]:
    named = [type_.symbols for type_ in scheme.typing.types.values()]
    named.extend(operator_symbols(operator) for operator in scheme.typing.operators.values())
    return sorted(frozenset[str]().union(*named))


def _written(value: object) -> str:
    return format_attribute("", cast("str", value)).removeprefix("=")

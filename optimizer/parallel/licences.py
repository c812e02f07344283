"""Licences: the task dimensions that may be divided, each justified by a verified rule.

A rule licenses a dimension of an operator when one side is the operator on whole inputs and the other is the
same operator on partitioned or replicated inputs with its result combined, reduced or partitioned:

    matmul(x, y) = combine[axis=-2, degree=d](matmul(partition[axis=-2, degree=d](x), replicate[degree=d](y)))
    relu(combine[axis=a, degree=d](x)) = combine[axis=a, degree=d](relu(x))

It licenses partial sums as operands when the operator on sums is the sum of the operator on their terms:

    reduce[degree=d](mul(x, replicate[degree=d](y))) = mul(reduce[degree=d](x), y)

ONNX nodes without an operator in the algebra have no equations; the definition in the ONNX specification is
cited instead. Where no equation is known yet, a plan may rely on the operator's own declaration
(``declared``), except for partial sums.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeGuard

from superopt.ir.numbers import AttributeVariable
from superopt.ir.terms import (
    Application,
    AttributeTerm,
    Condition,
    Equation,
    Term,
    Variable,
    VariableType,
    subterms,
)
from superopt.ops.base import Operator, attribute_defaults, attributes_of
from superopt.ops.opaque import Opaque
from superopt.ops.roles import Divided
from superopt.ops.sharded.splits import SplitKind
from superopt.ops.traits import rule_names, traits
from superopt.optimizer.parallel.search.subject import Operation
from superopt.optimizer.parallel.terms import TermDimension
from superopt.rewriting.conditions import as_declared, holds, names_in
from superopt.rewriting.divisions import DIVIDING

Axis = int | str
"""A number, or the name of an attribute variable."""


class VerifiedRule(Protocol):
    """A rule with its equation: a ``Substitution`` is one."""

    @property
    def rule_id(self) -> str:
        """Its id in the library."""
        ...

    @property
    def equation(self) -> Equation:
        """Its equation."""
        ...


@dataclass(frozen=True, slots=True)
class Division:
    """Licence given by a rule: the axis along which each input is divided (None for an undivided input,
    ``_TERM`` for a partial sum), and that of the result (None for a sum). ``variables`` are the inputs' names
    in the rule's clauses."""

    rule: str
    operator: str
    attributes: tuple[tuple[str, AttributeTerm], ...]
    inputs: tuple[Axis | None, ...]
    output: Axis | None
    variables: tuple[str, ...]
    conditions: tuple[Condition, ...]
    types: tuple[tuple[str, VariableType], ...]

    @property
    def reads_terms(self) -> bool:
        """Whether inputs are partial sums."""
        return _TERM in self.inputs


Reason = Callable[[Operation, int], "str | None"]
"""Return the reason why a task dimension may be divided; None if it may not."""


def declared(operation: Operation, dimension: int) -> str | None:
    """Return the licence by the operator's own declaration, which is tested but not proved; None for terms of
    operands."""
    if isinstance(operation.splits.dimensions[dimension], TermDimension):
        return None
    return f"{DECLARED}{operation.operator.name}"


def _nothing(operation: Operation, dimension: int) -> None:
    del operation, dimension


class Licences:
    """The rule for every task dimension that may be divided; ``otherwise`` is asked where there is none."""

    def __init__(self, divisions: Iterable[Division], otherwise: Reason = _nothing) -> None:
        self._otherwise = otherwise
        self._divisions = tuple(divisions)
        self._known: Mapping[str, list[Division]] = defaultdict(list)
        for division in self._divisions:
            self._known[division.operator].append(division)
        self._found: dict[tuple[object, ...], str | None] = {}

    def __len__(self) -> int:
        return sum(map(len, self._known.values()))

    def and_otherwise(self, others: Reason) -> Licences:
        """The same, with a fallback where there is none."""
        return Licences(self._divisions, others)

    def rule(self, operation: Operation, dimension: int) -> str | None:
        """The id of a rule that licenses the dimension; None where there is none."""
        key = (operation.operator, operation.inputs, operation.splits, dimension)
        if key not in self._found:
            self._found[key] = self._rule(operation, dimension)
        return self._found[key]

    def allow(self, operation: Operation, dimension: int) -> bool:
        """Whether the dimension may be divided."""
        return self.rule(operation, dimension) is not None

    def missing(self, operations: Iterable[Operation]) -> tuple[str, ...]:
        """The kinds of dimensions without an equation, as ``operator kind``."""
        names = {
            f"{operation.operator.name} {dimension.kind}"
            for operation in operations
            for number, dimension in enumerate(operation.splits.dimensions)
            if not isinstance(dimension, TermDimension)
            and (self.rule(operation, number) or DECLARED).startswith(DECLARED)
        }
        return tuple(sorted(names))

    def _rule(self, operation: Operation, dimension: int) -> str | None:
        if isinstance(operation.operator, Opaque):
            return f"onnx:{operation.operator.op_type}"
        terms = operation.splits.dimensions[dimension]
        for name in rule_names(operation.operator.name):
            for division in self._known.get(name, ()):
                if isinstance(terms, TermDimension):
                    covers = _covers_terms(division, operation, terms)
                else:
                    covers = _covers(division, operation, dimension)
                if covers:
                    return division.rule
        return self._otherwise(operation, dimension)


DECLARED = "declared:"


def licensed(rules: Iterable[VerifiedRule]) -> Licences:
    """Licences given by verified rules."""
    return Licences(division for rule in rules for division in divisions_of(rule.equation, rule.rule_id))


def by_axioms(axioms: Iterable[Equation]) -> Licences:
    """Licences given by axioms, else by the operators' own declarations."""
    found = (division for axiom in axioms for division in divisions_of(axiom, f"axiom:{axiom.name}"))
    return Licences(found, declared)


def licences_of(rules: Iterable[VerifiedRule], axioms: Iterable[Equation]) -> Licences:
    """Licences from a library's rules, else from axioms, else from the operator's own declarations, which
    reports mark."""
    return licensed(rules).and_otherwise(by_axioms(axioms).rule)


def divisions_of(equation: Equation, rule: str) -> Iterator[Division]:
    """Divisions of one operator, by any degree, that an equation licenses; empty for most equations."""
    if len(equation.left) != 1 or not _has_open_degrees(equation):
        return
    for plain, divided in ((equation.left[0], equation.right[0]), (equation.right[0], equation.left[0])):
        found = _division(plain, divided)
        if found is not None:
            whole, axes, output = found
            names = tuple(map(_variable, whole.inputs))
            if "" in names or len(set(names)) < len(names):
                continue  # the equation restricts its inputs
            yield Division(
                *(rule, whole.operator, whole.attributes, axes, output),
                *(names, equation.conditions, equation.types),
            )


def _has_open_degrees(equation: Equation) -> bool:
    """Whether no degree is a constant: such a rule would not generalise to other degrees."""
    terms = subterms(*equation.terms)
    divisions = (term for term in terms if isinstance(term, Application) and term.operator in DIVIDING)
    return all(isinstance(term.attribute("degree"), AttributeVariable) for term in divisions)


def _variable(whole: Term) -> str:
    """Return the variable that an input is, or whose parts or terms it combines; empty if there is none."""
    if _is(whole, Divided.DEGREE, gathers=True) or _is(whole, Divided.REPLICAS, gathers=True):
        (whole,) = whole.inputs
    return whole.name if isinstance(whole, Variable) else ""


def _division(plain: Term, divided: Term) -> tuple[Application, tuple[Axis | None, ...], Axis | None] | None:
    """The operator on whole inputs, and the division axes of inputs and result."""
    output: Axis | None = None
    is_sum = False
    if _is(divided, Divided.DEGREE, gathers=True) or _is(divided, Divided.REPLICAS, gathers=True):
        is_sum = _is(divided, Divided.REPLICAS, gathers=True)
        output = None if is_sum else _axis(divided)
        (divided,) = divided.inputs
    elif _is(plain, Divided.DEGREE, gathers=False):
        output = _axis(plain)
        (plain,) = plain.inputs
    else:
        return None
    if not isinstance(plain, Application) or not isinstance(divided, Application):
        return None
    if (plain.operator, plain.attributes) != (divided.operator, divided.attributes):
        return None
    if len(plain.inputs) != len(divided.inputs) or plain.operator in DIVIDING:
        return None
    inputs: list[Axis | None] = []
    for whole, part in zip(plain.inputs, divided.inputs, strict=True):
        axis = _input(whole, part)
        if axis is _NO_AXIS:
            return None
        inputs.append(None if axis is _COPIED else axis)
    if not is_sum and (output is None or _TERM in inputs):
        return None
    return plain, tuple(inputs), output


_TERM = "(term)"
_COPIED = "(copied)"
_NO_AXIS = "(no axis)"


def _input(whole: Term, part: Term) -> Axis:
    """The axis along which ``part`` is divided where ``whole`` is not."""
    if _is(whole, Divided.DEGREE, gathers=True) and whole.inputs[0] == part:
        return _axis(whole)
    if _is(whole, Divided.REPLICAS, gathers=True) and whole.inputs[0] == part:
        return _TERM
    if not isinstance(part, Application) or not isinstance(whole, Variable) or part.inputs != (whole,):
        return _NO_AXIS
    if _is(part, Divided.DEGREE, gathers=False):
        return _axis(part)
    return _COPIED if _is(part, Divided.REPLICAS, gathers=False) else _NO_AXIS


def _is(term: Term, divides: Divided, *, gathers: bool) -> TypeGuard[Application]:
    """Whether the term divides or combines parts in that way."""
    if not isinstance(term, Application):
        return False
    operator = traits(term.operator)
    return operator.divides is divides and operator.gathers is gathers


def _axis(term: Application) -> Axis:
    axis = term.attribute("axis")
    if isinstance(axis, AttributeVariable):
        return axis.name
    return axis if isinstance(axis, int) else _NO_AXIS


def _covers(division: Division, operation: Operation, dimension: int) -> bool:
    """Whether the rule covers that task dimension of that operation."""
    splits = operation.splits
    found = _patterns(division, operation)
    if found is None or division.reads_terms:
        return False
    patterns, names = found
    rank = len(splits.inputs[0])
    attributes = _attributes(division, operation.operator, rank)
    if attributes is None:
        return False
    bound = {name: value % rank for name, value in attributes.items() if isinstance(value, int) and rank}
    for axis, followed in zip(patterns, splits.inputs, strict=True):
        if not _agrees(axis, followed, dimension, bound):
            return False
    (followed, *_) = splits.outputs
    if division.output is None:
        agrees = dimension not in followed and splits.dimensions[dimension].kind is SplitKind.REDUCTION
    else:
        agrees = _agrees(division.output, followed, dimension, bound)
    return agrees and _holds(division, names, operation, {**bound, **attributes})


def _covers_terms(division: Division, operation: Operation, dimension: TermDimension) -> bool:
    """Whether the rule covers tasks of that operation that read terms."""
    found = _patterns(division, operation)
    if found is None or not division.reads_terms:
        return False
    terms = tuple(_TERM if slot in dimension.slots else None for slot in range(len(operation.inputs)))
    patterns, names = found
    is_commutative = traits(operation.operator.name).commutative
    if terms != patterns and not (is_commutative and terms == patterns[::-1]):
        return False
    attributes = _attributes(division, operation.operator, len(operation.splits.inputs[0]), is_typed=True)
    return attributes is not None and _holds(division, names, operation, attributes)


def _patterns(division: Division, operation: Operation) -> tuple[Sequence[Axis | None], Sequence[str]] | None:
    """The axis and the name of each input of the operation; None where the rule has other inputs. A rule
    about equally divided inputs covers any number of them."""
    count = len(operation.inputs)
    if len(division.inputs) == count:
        return division.inputs, division.variables
    if len(set(division.inputs)) != 1:
        return None
    return (division.inputs[0],) * count, ("",) * count


def _attributes(
    division: Division, operator: Operator, rank: int, *, is_typed: bool = False
) -> dict[str, object] | None:
    """Values of the rule's attribute variables in the operator; None where its attributes differ. Where the
    types of both sides agree (``is_typed``), those that they determine may have any value."""
    own = attributes_of(operator)
    if is_typed:
        own = {name: value for name, value in own.items() if name not in operator.implicit}
    unsaid = attribute_defaults(operator.name) if division.operator == operator.name else own
    said = {**unsaid, **dict(division.attributes)}
    variables: dict[str, object] = {}
    for name, is_ in own.items():
        value = said.get(name)
        if isinstance(value, AttributeVariable):
            variables[value.name] = is_
        elif is_ != value and not (name == "axis" and _same_axis(is_, value, rank)):
            return None
    return variables


def _holds(
    division: Division, names: Sequence[str], operation: Operation, attributes: Mapping[str, object]
) -> bool:
    """Whether the types of the operation's inputs fulfil the clauses of the rule."""
    if not division.conditions and not division.types:
        return True
    types = {name: type_ for name, type_ in zip(names, operation.inputs, strict=True) if name}
    known = types.keys() | attributes.keys()
    return as_declared(division.types, types) and all(
        names_in(condition) <= known and holds(condition, types, attributes)
        for condition in division.conditions
    )


def _same_axis(own: object, value: object, rank: int) -> bool:
    """Whether two axes are equal, each counted from the start or from the end."""
    return isinstance(own, int) and isinstance(value, int) and (own - value) % rank == 0


def _agrees(
    axis: Axis | None, followed: tuple[int | None, ...], dimension: int, bound: dict[str, int]
) -> bool:
    """Whether a tensor follows the dimension along the rule's axis, or not at all if the rule says so. A name
    stands for one axis, counted from the end or from the start."""
    if axis is None:
        return dimension not in followed
    if dimension not in followed:
        return False
    place = followed.index(dimension)
    if isinstance(axis, str):
        return bound.setdefault(axis, place) == place
    return axis % len(followed) == place if -len(followed) <= axis < len(followed) else False

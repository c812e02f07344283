"""Which task dimensions may be divided: those for which a verified rule says that dividing changes nothing.

A rule licenses a dimension of an operator when one side is the operator on whole inputs and the other the
same operator on inputs that are partitioned or replicated, its result combined, reduced or partitioned:

    matmul(x, y) = combine[axis=-2, degree=d](matmul(partition[axis=-2, degree=d](x), replicate[degree=d](y)))
    relu(combine[axis=a, degree=d](x)) = combine[axis=a, degree=d](relu(x))

Nodes of ONNX that no operator describes have no equations: what their definition says is cited instead. Where
no equation is known yet, a plan may rest on what the operator declares (``declared``), and says so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from optimizer.parallel.search.subject import Operation
from superopt.ir.terms import Application, AttributeTerm, AttributeVariable, Equation, Term, Variable
from superopt.ops.base import attributes_of
from superopt.ops.opaque import Opaque
from superopt.ops.splits import SplitKind

Axis = int | str
"""A number, or the name of an attribute variable."""


class VerifiedRule(Protocol):
    """A rule with its equation: a ``Substitution`` is one."""

    @property
    def rule_id(self) -> str:
        """The id in the library."""
        ...

    @property
    def equation(self) -> Equation:
        """What it says."""
        ...


@dataclass(frozen=True, slots=True)
class Division:
    """What a rule says of an operator: along which axis each input is divided, None for one that is needed
    whole, and along which the result is, None for one that is a sum."""

    rule: str
    operator: str
    attributes: tuple[tuple[str, AttributeTerm], ...]
    inputs: tuple[Axis | None, ...]
    output: Axis | None


Reason = Callable[[Operation, int], "str | None"]
"""Why a task dimension may be divided; None where it may not."""


def declared(operation: Operation, dimension: int) -> str:
    """The word of the operator itself, which tests confirm and nothing proves."""
    del dimension
    return f"{DECLARED}{operation.operator.name}"


def _nothing(operation: Operation, dimension: int) -> None:
    del operation, dimension


class Licences:
    """The rule for every task dimension that may be divided; ``otherwise`` is asked where none is known."""

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
        """The same, and what others allow where these say nothing."""
        return Licences(self._divisions, others)

    def rule(self, operation: Operation, dimension: int) -> str | None:
        """The id of a rule by which the dimension may be divided; None where there is none."""
        key = (operation.operator, operation.splits, dimension)
        if key not in self._found:
            self._found[key] = self._rule(operation, dimension)
        return self._found[key]

    def allow(self, operation: Operation, dimension: int) -> bool:
        """Whether the dimension may be divided."""
        return self.rule(operation, dimension) is not None

    def missing(self, operations: Iterable[Operation]) -> tuple[str, ...]:
        """The kinds of dimensions for which there is no equation, as ``operator kind``."""
        names = {
            f"{operation.operator.name} {dimension.kind}"
            for operation in operations
            for number, dimension in enumerate(operation.splits.dimensions)
            if (self.rule(operation, number) or DECLARED).startswith(DECLARED)
        }
        return tuple(sorted(names))

    def _rule(self, operation: Operation, dimension: int) -> str | None:
        if isinstance(operation.operator, Opaque):
            return f"onnx:{operation.operator.op_type}"
        for name in _NAMES.get(operation.operator.name, (operation.operator.name,)):
            for division in self._known.get(name, ()):
                if _covers(division, operation, dimension):
                    return division.rule
        return self._otherwise(operation, dimension)


DECLARED = "declared:"

_NAMES = {"split": ("split", "split0", "split1")}
"""Operators that rules write in a binary form."""


def licensed(rules: Iterable[VerifiedRule]) -> Licences:
    """What verified rules allow."""
    return Licences(division for rule in rules for division in divisions_of(rule.equation, rule.rule_id))


def divisions_of(equation: Equation, rule: str) -> Iterator[Division]:
    """What an equation says about dividing one operator; nothing for most equations."""
    if len(equation.left) != 1:
        return
    for plain, divided in ((equation.left[0], equation.right[0]), (equation.right[0], equation.left[0])):
        found = _division(plain, divided)
        if found is not None:
            operator, inputs, output = found
            yield Division(rule, operator.operator, operator.attributes, inputs, output)


def _division(plain: Term, divided: Term) -> tuple[Application, tuple[Axis | None, ...], Axis | None] | None:
    """The operator, and the axes along which inputs and result are divided."""
    output: Axis | None = None
    is_sum = False
    if isinstance(divided, Application) and divided.operator in ("combine", "reduce"):
        is_sum = divided.operator == "reduce"
        output = None if is_sum else _axis(divided)
        (divided,) = divided.inputs
    elif isinstance(plain, Application) and plain.operator == "partition":
        output = _axis(plain)
        (plain,) = plain.inputs
    else:
        return None
    if not isinstance(plain, Application) or not isinstance(divided, Application):
        return None
    if (plain.operator, plain.attributes) != (divided.operator, divided.attributes):
        return None
    if len(plain.inputs) != len(divided.inputs) or plain.operator in _PARALLEL:
        return None
    inputs: list[Axis | None] = []
    for whole, part in zip(plain.inputs, divided.inputs, strict=True):
        axis = _input(whole, part)
        if axis is _NO_AXIS:
            return None
        inputs.append(None if axis is _COPIED else axis)
    if not is_sum and output is None:
        return None
    return plain, tuple(inputs), output


_PARALLEL = frozenset(("partition", "combine", "replicate", "reduce", "pipeline", "batch"))
_COPIED = "(copied)"
_NO_AXIS = "(no axis)"


def _input(whole: Term, part: Term) -> Axis:
    """The axis along which ``part`` is divided where ``whole`` is not."""
    if isinstance(whole, Application) and whole.operator == "combine" and whole.inputs[0] == part:
        return _axis(whole)
    if not isinstance(part, Application) or not isinstance(whole, Variable) or part.inputs != (whole,):
        return _NO_AXIS
    if part.operator == "partition":
        return _axis(part)
    return _COPIED if part.operator == "replicate" else _NO_AXIS


def _axis(term: Application) -> Axis:
    axis = term.attribute("axis")
    if isinstance(axis, AttributeVariable):
        return axis.name
    return axis if isinstance(axis, int) else _NO_AXIS


def _covers(division: Division, operation: Operation, dimension: int) -> bool:
    """Whether the rule is about that task dimension of that operation."""
    splits = operation.splits
    attributes = attributes_of(operation.operator)
    named: dict[str, int] = {}
    for name, value in division.attributes:
        own = attributes.get(name)
        if isinstance(value, AttributeVariable):
            if isinstance(own, int):
                named[value.name] = own
        elif own != value and name != "axis":
            return False
    patterns = division.inputs
    if len(patterns) != len(splits.inputs):
        if len(set(patterns)) != 1:
            return False
        patterns = (patterns[0],) * len(splits.inputs)
    bound: dict[str, int] = {}
    for axis, followed in zip(patterns, splits.inputs, strict=True):
        if not _agrees(axis, followed, dimension, bound):
            return False
    (followed, *_) = splits.outputs
    if division.output is None:
        return dimension not in followed and splits.dimensions[dimension].kind is SplitKind.REDUCTION
    return _agrees(division.output, followed, dimension, bound)


def _agrees(
    axis: Axis | None, followed: tuple[int | None, ...], dimension: int, bound: dict[str, int]
) -> bool:
    """Whether a tensor follows the dimension along the axis that the rule says, or not where it says so.

    A name stands for one axis, counted from the end or from the start.
    """
    if axis is None:
        return dimension not in followed
    if dimension not in followed:
        return False
    place = followed.index(dimension)
    if isinstance(axis, str):
        return bound.setdefault(axis, place) == place
    return axis % len(followed) == place if -len(followed) <= axis < len(followed) else False

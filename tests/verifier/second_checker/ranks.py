"""Tensors of one rank: what operators and conditions say of ranks, and where axis variables are used.

A tensor is known by its term. Where a part of the term leaves sizes out, equal terms at different places may
have different ranks, so that they are known by their place, too: the rule, or a link of a chain.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TypeAlias

from superopt.ir.terms import (
    Application,
    AttributeVariable,
    Condition,
    ConditionCall,
    ConditionName,
    ConditionTerm,
    Equation,
    Term,
    Variable,
)
from superopt.ops import OPERATORS
from superopt.ops.roles import Product
from superopt.verifier.certificates.certificate import Certificate, Link
from tests.verifier.second_checker.numbers import value_of
from tests.verifier.second_checker.plain import (
    calls,
    names_of_equation,
    operands,
    same_ranks,
)
from tests.verifier.second_checker.typing_state import UnknownCasesError

IMAGE, MATRIX = 4, 2
RULE = "rule"


@dataclass(frozen=True)
class Tensor:
    """A tensor: its term in the language of the rule, what it is known by, and the operands."""

    key: Hashable
    term: Term
    inputs: tuple[Tensor, ...] = ()


Found: TypeAlias = "dict[Hashable, Tensor]"


@dataclass
class Classes:
    """Tensors of which each two in one class have the same rank."""

    parents: dict[Hashable, Hashable] = field(default_factory=dict[Hashable, Hashable])
    tensors: Found = field(default_factory=dict[Hashable, Tensor])
    uses: dict[str, set[Hashable]] = field(default_factory=dict[str, set[Hashable]])
    own_axes: dict[str, set[Hashable]] = field(default_factory=dict[str, set[Hashable]])
    compared: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    low: set[Hashable] = field(default_factory=set[Hashable])

    def of(self, key: Hashable) -> Hashable:
        """What the class is known by."""
        while (parent := self.parents.get(key, key)) != key:
            key = parent
        return key

    def join(self, one: Hashable, other: Hashable) -> None:
        """The two have the same rank."""
        self.parents[self.of(one)] = self.of(other)

    def add(self, tensor: Tensor) -> None:
        """A tensor and its operands, and what the operators say of their ranks."""
        if tensor.key in self.tensors:
            return
        self.tensors[tensor.key] = tensor
        for each in tensor.inputs:
            self.add(each)
        if isinstance(tensor.term, Application):
            self._relate(tensor, tensor.term)
            axis = tensor.term.attribute("axis")
            if isinstance(axis, AttributeVariable):
                key = tensor.inputs[0].key if tensor.inputs else tensor.key
                self.uses.setdefault(axis.name, set()).add(key)
                self.own_axes.setdefault(axis.name, set()).add(key)

    def _relate(self, tensor: Tensor, term: Application) -> None:
        operator = OPERATORS[term.operator]
        keys = [each.key for each in tensor.inputs]
        main, beside = keys[: len(keys) - operator.side_inputs], keys[len(keys) - operator.side_inputs :]
        self.low.update(beside)
        shape = term.attribute("shape")
        if isinstance(shape, tuple):
            self.low.add(tensor.key)
        elif isinstance(shape, AttributeVariable):
            self.join(tensor.key, ("shape", shape.name))
        if operator.positions == IMAGE or operator.ranks in ((1,), (MATRIX,)):
            self.low.update((*keys, tensor.key))
        elif term.operator in ("identity_matrix", "matmul_weight_gradient"):
            self.low.add(tensor.key)
        elif term.operator == "bilinear_matmul":
            self.low.add(keys[1])
        elif _keeps_rank(term):
            for key in main:
                self.join(key, tensor.key)

    def close(self) -> None:
        """Products of operands of the same ranks have the same rank."""
        joined = True
        while joined:
            joined = False
            known: dict[tuple[Hashable, ...], Hashable] = {}
            for tensor in self.tensors.values():
                if not isinstance(tensor.term, Application):
                    continue
                if OPERATORS[tensor.term.operator].product is not Product.MATRIX:
                    continue
                key = (tensor.term.operator, *(self.of(each.key) for each in tensor.inputs))
                other = known.setdefault(key, tensor.key)
                if self.of(other) != self.of(tensor.key):
                    self.join(other, tensor.key)
                    joined = True

    def conditions(
        self, conditions: Sequence[Condition], tensors: Mapping[str, Hashable], axes: Mapping[str, str]
    ) -> None:
        """What the conditions ask of axis variables, given the tensors and open shapes that names stand for,
        and the rule's names of axes."""
        for condition in conditions:
            for call in calls(condition):
                match call:
                    case ConditionCall("dim" | "axis", (ConditionName(tensor), ConditionName(axis))):
                        if tensor in tensors and axis in axes:
                            self.uses.setdefault(axes[axis], set()).add(tensors[tensor])
                    case _:
                        pass
            sides = [axes.get(_axis_named(side)) for side in operands(condition)]
            if None not in sides and len(sides) > 1:
                one, other = (side or "" for side in sides)
                self.compared.append((one, other))

    def is_low(self, key: Hashable) -> bool:
        """Whether the rank is a number that is known."""
        return self.of(key) in {self.of(each) for each in self.low}

    def require_one_rank(self, axes: frozenset[str]) -> None:
        """Raises UnknownCasesError unless all tensors at which an axis variable is used are related."""
        around = set(self._around_one_operator())
        for name in sorted(axes):
            if any(self.is_low(key) for key in self.own_axes.get(name, ())):
                continue
            group = {name}
            while added := {each for pair in self.compared if group & {*pair} for each in pair} - group:
                group |= added
            used = {self.of(key) for each in group & axes for key in self.uses.get(each, ())}
            for one, other in combinations(sorted(used, key=repr), 2):
                if frozenset((one, other)) not in around:
                    raise UnknownCasesError(f"the axis {name} is used at tensors of several ranks")

    def _around_one_operator(self) -> Iterator[frozenset[Hashable]]:
        for tensor in self.tensors.values():
            if isinstance(tensor.term, Application) and not OPERATORS[tensor.term.operator].repeats:
                keys = {self.of(each.key) for each in (tensor, *tensor.inputs)}
                yield from (frozenset(pair) for pair in combinations(keys, 2))

    def broadcasts(self) -> int:
        """How many there are: equal terms that relate the same ranks are one."""
        found = [
            (tensor.term, self.of(tensor.key), self.of(tensor.inputs[0].key))
            for tensor in self.tensors.values()
            if isinstance(tensor.term, Application) and OPERATORS[tensor.term.operator].repeats
        ]
        return len(set(found))


def _keeps_rank(term: Application) -> bool:
    operator = OPERATORS[term.operator]
    if operator.repeats or operator.positions is None:
        return False
    return operator.positions <= 1 or term.operator == "transpose"


def _axis_named(side: ConditionTerm) -> str:
    """The axis variable of an operand ``a`` or ``axis(x, a)``; else nothing."""
    if isinstance(side, ConditionName):
        return side.name
    if isinstance(side, ConditionCall) and side.function == "axis":
        axis = side.arguments[1]
        return axis.name if isinstance(axis, ConditionName) else ""
    return ""


def leaves_out_sizes(term: Term) -> bool:
    """Whether the term or a part of it leaves sizes out."""
    if isinstance(term, Variable):
        return False
    own = any(term.attribute(name) is None for name in OPERATORS[term.operator].implicit)
    return own or any(leaves_out_sizes(each) for each in term.inputs)


def tensor_of(term: Term, place: Hashable) -> Tensor:
    """The tensor of a term at a place where equal terms are one."""
    key = (place, term) if leaves_out_sizes(term) else term
    inputs = () if isinstance(term, Variable) else tuple(tensor_of(each, place) for each in term.inputs)
    return Tensor(key, term, inputs)


def rule_classes(goal: Equation, *, strict: bool = True) -> Classes:
    """What the rule itself says: its terms, types and conditions, and that its sides have one type; raises
    UnknownCasesError, if ``strict``, for a condition that relates ranks otherwise."""
    classes = Classes()
    names = names_of_equation(goal)
    for term in goal.terms:
        classes.add(tensor_of(term, RULE))
    classes.low.update(Variable(name) for name, _ in goal.types)
    for left, right in zip(goal.left, goal.right, strict=True):
        classes.join(tensor_of(left, RULE).key, tensor_of(right, RULE).key)
    tensors: dict[str, Hashable] = {name: ("shape", name) for name in names.shapes}
    tensors |= {name: Variable(name) for name in names.tensors}
    for condition in goal.conditions:
        try:
            pair = same_ranks(condition, names)
        except UnknownCasesError:
            if strict:
                raise
            continue
        if pair is not None:
            classes.join(*(tensors[name] for name in pair))
    classes.conditions(goal.conditions, tensors, {name: name for name in names.axes})
    classes.close()
    return classes


def chain_classes(goal: Equation, axioms: Mapping[str, Equation], certificate: Certificate) -> Classes:
    """What rule and chains say."""
    classes = rule_classes(goal)
    for number, (start, chain) in enumerate(zip(goal.left, certificate.chains, strict=True)):
        current = tensor_of(start, RULE)
        for step, link in enumerate(chain):
            current = _link(classes, current, link, axioms[link.axiom], (number, step))
            classes.add(current)
        _same(classes, current, tensor_of(goal.right[number], RULE))
    classes.close()
    return classes


def _link(classes: Classes, current: Tensor, link: Link, axiom: Equation, place: Hashable) -> Tensor:
    """Adds both sides of the axiom, and returns the whole tensor after the step."""
    attributes = dict(link.attributes)
    bound: dict[str, Tensor] = {}
    source, target = (axiom.right, axiom.left) if link.backwards else (axiom.left, axiom.right)
    part = current
    for index in link.path:
        part = part.inputs[index]
    _bind(source[link.output], part, bound)
    for name, term in link.terms:
        if name not in bound:
            bound[name] = tensor_of(term, (place, name))
    made: dict[Term, Tensor] = {}
    for side in axiom.terms:
        classes.add(_instance(side, bound, attributes, place, made))
    for left, right in zip(axiom.left, axiom.right, strict=True):
        classes.join(made[left].key, made[right].key)
    _same(classes, made[source[link.output]], part)
    tensors: dict[str, Hashable] = {}
    axes: dict[str, str] = {}
    for name, value in attributes.items():
        if isinstance(value, AttributeVariable):
            axes[name] = value.name
            tensors[name] = ("shape", value.name)
        elif isinstance(value, tuple):
            tensors[name] = ("constant", value)
            classes.low.add(tensors[name])
    tensors |= {name: tensor.key for name, tensor in bound.items()}
    classes.conditions(axiom.conditions, tensors, axes)
    return _put(current, link.path, made[target[link.output]], place)


def _bind(pattern: Term, tensor: Tensor, bound: dict[str, Tensor]) -> None:
    if isinstance(pattern, Variable):
        bound.setdefault(pattern.name, tensor)
        return
    for child, each in zip(pattern.inputs, tensor.inputs, strict=True):
        _bind(child, each, bound)


def _instance(
    term: Term,
    bound: Mapping[str, Tensor],
    attributes: Mapping[str, object],
    place: Hashable,
    made: dict[Term, Tensor],
) -> Tensor:
    """The tensor of a term of the axiom; its own applications are one where their terms are."""
    if term in made:
        return made[term]
    if isinstance(term, Variable):
        made[term] = bound[term.name]
        return made[term]
    inputs = tuple(_instance(each, bound, attributes, place, made) for each in term.inputs)
    values = tuple((name, _attribute(value, attributes)) for name, value in term.attributes)
    instance = Application(term.operator, values, tuple(each.term for each in inputs))  # pyright: ignore[reportArgumentType]
    key = (place, "axiom", term) if leaves_out_sizes(instance) else instance
    made[term] = Tensor(key, instance, inputs)
    return made[term]


def _attribute(value: object, attributes: Mapping[str, object]) -> object:
    """Axes and shapes stand for themselves; calculated numbers say nothing of ranks."""
    return value_of(value, attributes) if isinstance(value, AttributeVariable) else value


def _put(whole: Tensor, path: Sequence[int], part: Tensor, place: Hashable) -> Tensor:
    if not path:
        return part
    assert isinstance(whole.term, Application)
    inputs = list(whole.inputs)
    inputs[path[0]] = _put(inputs[path[0]], path[1:], part, place)
    term = Application(whole.term.operator, whole.term.attributes, tuple(each.term for each in inputs))
    key = (place, "whole", tuple(path), whole.key) if leaves_out_sizes(term) else term
    return Tensor(key, term, tuple(inputs))


def _same(classes: Classes, one: Tensor, other: Tensor) -> None:
    """The two are one complete term, part by part."""
    classes.add(one)
    classes.add(other)
    classes.join(one.key, other.key)
    for left, right in zip(one.inputs, other.inputs, strict=False):
        _same(classes, left, right)


def limited(classes: Classes, goal: Equation, most: int) -> None:
    """Raises UnknownCasesError where a rule of limited rank leaves out the shape of a term whose rank is not
    limited."""
    declared = {name for name, _ in goal.types}
    known = {key for key in classes.tensors if isinstance(key, Variable) and key.name not in declared}
    known |= {Variable(name) for name, type_ in goal.types if len(type_.shape) <= most}
    known |= {key for key, tensor in classes.tensors.items() if _is_limited(tensor, most)}
    for tensor in classes.tensors.values():
        if isinstance(tensor.term, Application):
            operator = OPERATORS[tensor.term.operator]
            if operator.side_inputs:
                known.update(each.key for each in tensor.inputs[len(tensor.inputs) - operator.side_inputs :])
            if operator.positions == IMAGE:
                known.update(each.key for each in (tensor, *tensor.inputs))
    ranks = {classes.of(key) for key in known}
    for tensor in classes.tensors.values():
        if _leaves_out_shape(tensor.term) and classes.of(tensor.key) not in ranks:
            raise UnknownCasesError("a shape that is left out may be longer than ranks are gone through")


def _leaves_out_shape(term: Term) -> bool:
    if isinstance(term, Variable):
        return False
    return "shape" in OPERATORS[term.operator].implicit and term.attribute("shape") is None


def _is_limited(tensor: Tensor, most: int) -> bool:
    """Whether the rank is a number by the operator alone."""
    if isinstance(tensor.term, Variable):
        return False
    shape = tensor.term.attribute("shape")
    if isinstance(shape, tuple):
        return len(shape) <= most
    if isinstance(shape, AttributeVariable):
        return True  # its lengths are those of ranks
    return OPERATORS[tensor.term.operator].positions == IMAGE or tensor.term.operator == "identity_matrix"


__all__ = ["Classes", "chain_classes", "limited", "rule_classes"]

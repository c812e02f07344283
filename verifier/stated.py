"""What a rule must say itself before a step may rely on it: choices that instances cannot all show.

A step is typed under instances, and its axiom's conditions are true there. For sizes that are symbols that is
enough. Groups of convolutions, values of attributes that a rule leaves open and the parity of an open kernel
are choices of which only some are ever tried: where a step needs one, the rule must state it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from superopt.ir.dimensions import Dimension
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
    applications,
)
from superopt.ir.types import TensorType
from superopt.rewriting.conditions import names_in

_GROUPS = frozenset(("groups", "outputs_per_group"))
_WINDOWS = frozenset(("kernel", "dilation", "padding"))
_OF_THEIR_OWN = frozenset(("enlarge", "identity_kernel"))
_EXACT = frozenset(("=", ""))


def why_too_vague(goal: Equation) -> str:
    """Why a rule's own conditions leave too much open to be proved, else empty.

    A size, rank or number of groups that is only said to be different, smaller or larger may be beyond all
    that is tried.
    """
    for condition in goal.conditions:
        calls = {call.function for call in _calls(condition)} - {"axis", "odd", "even"}
        if condition.relation not in _EXACT and calls:
            said = ", ".join(sorted(calls))
            return (
                f"a condition says {condition.relation} of {said}, which can be tried for a few values only"
            )
    return ""


def attributes_are_stated(
    condition: Condition,
    attributes: Mapping[str, object],
    terms: Mapping[str, Term],
    given: Iterable[Condition],
) -> bool:
    """Whether a clause about an attribute that the rule leaves open is one of its own, word for word.

    ``attributes`` and ``terms`` say what the names stand for. All axes of a rank are tried: clauses about
    axes of tensors need not be stated.
    """
    names = names_in(condition)
    is_open = any(isinstance(attributes.get(name), AttributeVariable) for name in names)
    if not is_open or (any(call.function == "axis" for call in _calls(condition))):
        return True
    return _with_names(condition, {**attributes, **terms}) in tuple(given)


def groups_are_stated(
    condition: Condition,
    types: Mapping[str, TensorType],
    terms: Mapping[str, Term],
    goal: Equation,
    own: Mapping[str, TensorType],
) -> bool:
    """Whether a clause about groups is one of the rule, up to names of tensors of the same channels.

    ``types`` and ``terms`` are those of the names in the clause, ``own`` the types of the rule's variables.
    Of a tensor that is its own kernel, and of two sides about the same tensors, nothing has to be stated.
    That two tensors have as many channels wherever they were tried says nothing about where they were not.
    """
    wanted = _signature(condition, types)
    if wanted is None or _compares_alike(condition, terms) or _convolves_itself(condition, terms):
        return True
    return any(_signature(each, own) == wanted for each in goal.conditions)


def _compares_alike(condition: Condition, terms: Mapping[str, Term]) -> bool:
    """Whether both sides of the clause are the same call about the same tensors."""
    left, right = condition.left, condition.right
    if not isinstance(left, ConditionCall) or not isinstance(right, ConditionCall):
        return False
    if left.function != right.function or len(left.arguments) != len(right.arguments):
        return False
    pairs = zip(left.arguments, right.arguments, strict=True)
    return all(
        isinstance(a, ConditionName)
        and isinstance(b, ConditionName)
        and (a == b or (a.name in terms and terms[a.name] == terms.get(b.name)))
        for a, b in pairs
    )


def _convolves_itself(condition: Condition, terms: Mapping[str, Term]) -> bool:
    """Whether the clause says that a term has one group as the kernel of itself, which is always so."""
    match condition:
        case Condition(ConditionCall("groups", (ConditionName(data), ConditionName(weight))), "=", 1):
            return data in terms and terms[data] == terms.get(weight)
        case _:
            return False


def windows_are_stated(term: Term, goal: Equation) -> bool:
    """Whether each application whose typing depends on an open kernel, dilation or padding has an example in
    the rule, where that is well-typed by assumption.
    """
    own = [_window(each) for each in applications(*goal.left, *goal.right)]
    return all(
        any(wanted <= known for known in own)
        for wanted in map(_window, applications(term))
        if any(isinstance(value, AttributeVariable) for _, value in wanted)
    )


def _window(term: Application) -> frozenset[tuple[str, object]]:
    values: set[tuple[str, object]] = {
        (name, value)
        for name, value in term.attributes
        if name in _WINDOWS and (isinstance(value, AttributeVariable) or value == "same")
    }
    if term.operator in _OF_THEIR_OWN:
        values.add(("operator", term.operator))
    return frozenset(values)


def _signature(
    condition: Condition, types: Mapping[str, TensorType]
) -> tuple[str, tuple[object, ...], object] | None:
    """The relation, what each call about groups depends on, the other operands; None without such calls."""
    sides = [condition.left] if condition.right is None else [condition.left, condition.right]
    calls = tuple(_channels(side, types) for side in sides if isinstance(side, ConditionCall))
    if not any(call.function in _GROUPS for call in _calls(condition)):
        return None
    others = tuple(side for side in sides if not isinstance(side, ConditionCall))
    return condition.relation, tuple(sorted(calls, key=str)), others


def _channels(call: ConditionCall, types: Mapping[str, TensorType]) -> tuple[object, ...]:
    sizes: list[Dimension | None] = []
    for argument in call.arguments:
        type_ = types.get(argument.name) if isinstance(argument, ConditionName) else None
        sizes.extend(type_.shape[:2] if type_ is not None else (None,))
    return (call.function, *(sizes[1::2] if call.function == "groups" else sizes[1:]))


def _calls(condition: Condition) -> Iterator[ConditionCall]:
    for operand in (condition.left, condition.right):
        if isinstance(operand, ConditionCall):
            yield operand
            yield from (each for each in operand.arguments if isinstance(each, ConditionCall))


def _with_names(condition: Condition, names: Mapping[str, object]) -> Condition | None:
    left = _standing_for(condition.left, names)
    right = None if condition.right is None else _standing_for(condition.right, names)
    return None if left is None else Condition(left, condition.relation, right)


def _standing_for(operand: ConditionTerm, names: Mapping[str, object]) -> ConditionTerm | None:
    match operand:
        case ConditionName(name):
            value = names.get(name)
            if isinstance(value, AttributeVariable | Variable):
                return ConditionName(value.name)
            return value if isinstance(value, int | str | tuple) else None  # pyright: ignore[reportUnknownVariableType]
        case ConditionCall(function, arguments):
            replaced = [_standing_for(each, names) for each in arguments]
            known = tuple(each for each in replaced if each is not None)
            return ConditionCall(function, known) if len(known) == len(replaced) else None
        case _:
            return operand

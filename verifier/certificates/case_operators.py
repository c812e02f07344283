"""The operator of an application in a case, with values for the attributes that its text omits."""

from __future__ import annotations

from collections.abc import Mapping

from superopt.errors import IllTypedError
from superopt.ir.dimensions import Dimension
from superopt.ir.numbers import substituted_number
from superopt.ir.terms import Application
from superopt.ops.base import OPERATORS, Operator
from superopt.ops.traits import HALVES
from superopt.verifier.certificates.dropped_cases import applied
from superopt.verifier.certificates.partial_typing import PartialTyping, UndecidedCasesError
from superopt.verifier.certificates.size_equations import Fresh


def explicit_attributes(term: Application, state: PartialTyping) -> dict[str, object]:
    """Return the attributes that the text gives. Raises UndecidedCasesError if one cannot be calculated from
    the values that stand for all."""
    try:
        return {name: substituted_number(value, state.attributes) for name, value in term.attributes}
    except IllTypedError as error:
        raise UndecidedCasesError(str(error)) from error


def operator_of(term: Application, state: PartialTyping, fresh: Fresh) -> tuple[PartialTyping, Operator]:
    """Return the operator with all its attributes, and the state updated with ``fresh`` sizes for those that
    the text omits. Raises IllTypedError if it never has these attributes, and UndecidedCasesError."""
    given = explicit_attributes(term, state)
    for name in OPERATORS[term.operator].implicit:
        if name in given:
            continue
        place = _place(term, given, state) if term.operator in HALVES else term
        value = state.implicit.get(place)
        if value is None:
            value = _cut(term, given, state) or fresh()
            state = state.with_implicit(place, value)
        given[name] = value
    return state, applied(term.operator, given)


def _place(term: Application, given: Mapping[str, object], state: PartialTyping) -> object:
    """Return the tensor and axis that a half is cut from; both halves have the same cut."""
    (cut,) = term.inputs
    return cut, _axis(given["axis"], state.types[cut].rank)


def _cut(term: Application, given: Mapping[str, object], state: PartialTyping) -> Dimension | None:
    """Return the size of the half of a concat along its own axis, which is that of its operand."""
    cut = term.inputs[0] if term.operator in HALVES else None
    if not isinstance(cut, Application) or not OPERATORS[cut.operator].joins:
        return None
    rank = state.types[cut].rank
    axis = _axis(explicit_attributes(cut, state)["axis"], rank)
    return state.types[cut.inputs[0]].shape[axis] if axis == _axis(given["axis"], rank) else None


def _axis(axis: object, rank: int) -> int:
    if not isinstance(axis, int) or not -rank <= axis < rank:
        raise IllTypedError(f"a tensor of rank {rank} has no axis {axis}")
    return axis % rank


__all__ = ["explicit_attributes", "operator_of"]

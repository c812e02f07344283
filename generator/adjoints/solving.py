"""Terms f(a, z) or f(z, a) equal to a value: the class a is known, and z is solved for.

Where an element-wise operator of two operands is affine in z, f(a, z) = f(a, 0) + z (f(a, 1) - f(a, 0)), and
z follows by a division. Which operators are is not listed but tested: f of the solution must be the value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from superopt.domains.small_field import SmallArray, SmallFieldDomain
from superopt.errors import IllTypedError
from superopt.generator.adjoints.forms import Forms
from superopt.generator.enumerate.enumeration import Enumeration
from superopt.generator.enumerate.fingerprints import VECTORS
from superopt.generator.enumerate.linear_maps import evaluated
from superopt.generator.presets.preset import InputType, Instance
from superopt.ir.terms import Application, Term
from superopt.ops import Operator

LARGEST_KNOWN = (0, 1)
"""Operators in the known operand: of the outer one of two steps, and of the last step."""

_DOMAIN = SmallFieldDomain()
Fit = Callable[[Term], Term]


@dataclass(frozen=True)
class _Place:
    """An operand of an operator to solve for, and the type of the known one."""

    instance: Instance
    operator: Operator
    place: int
    unknown: InputType
    known: int

    def applied(self, known: SmallArray, unknown: SmallArray) -> SmallArray:
        return evaluated(self.operator, (unknown, known) if self.place == 0 else (known, unknown))

    def written(self, known: Term, unknown: Term) -> Term:
        pair = (unknown, known) if self.place == 0 else (known, unknown)
        return Application(self.instance.name, self.instance.attributes, pair)


class Solver:
    """Solutions by the terms of an enumeration, in up to ``steps`` steps."""

    def __init__(self, enumeration: Enumeration, forms: Forms) -> None:
        self._enumeration = enumeration
        self._forms = forms

    def terms(self, type_: InputType, target: SmallArray, steps: int) -> Iterator[Term]:
        """Terms equal to the target, of one solved step, then of two and so on."""
        if steps > 0:
            yield from self._one(type_, target, LARGEST_KNOWN[-1])
        if steps > 1:
            for place in self._places(type_):
                yield from self._more(place, target, steps - 1)

    def _one(self, type_: InputType, target: SmallArray, largest: int) -> Iterator[Term]:
        for place in self._places(type_):
            known = self._known(place, largest)
            if not len(known):
                continue
            solutions, valid = self._solved(place, known, target)
            found = self._enumeration.classes_of(place.unknown, solutions)
            for index in np.flatnonzero(valid & (found >= 0)).tolist():
                for a in self._forms.smallest(int(known[index])):
                    for z in self._forms.smallest(int(found[index])):
                        yield place.written(a, z)

    def _more(self, place: _Place, target: SmallArray, steps: int) -> Iterator[Term]:
        known = self._known(place, LARGEST_KNOWN[0])
        if not len(known):
            return
        solutions, valid = self._solved(place, known, target)
        unknown = self._enumeration.classes_of(place.unknown, solutions) < 0
        for index in np.flatnonzero(valid & unknown).tolist():
            solution = _chosen(solutions, index)
            if np.array_equal(solution.residue, target.residue):
                continue
            a, *_ = self._forms.smallest(int(known[index]))
            for term in self.terms(place.unknown, solution, steps):
                yield place.written(a, term)

    def _places(self, type_: InputType) -> Iterator[_Place]:
        """Operands of the same shape as the result, by the type of the other operand."""
        table = self._enumeration.table
        for instance in self._enumeration.stage.instances:
            operator = instance.operator
            if operator is None or not operator.element_wise:
                continue
            for roles, output in instance.signatures:
                for place in range(2) if len(roles) == 2 and output == type_.role else ():
                    unknown = InputType(roles[place], type_.shape)
                    for number, other in enumerate(table.types):
                        if other.role == roles[1 - place] and _fits(operator, place, unknown, other):
                            yield _Place(instance, operator, place, unknown, number)

    def _known(self, place: _Place, largest: int) -> npt.NDArray[np.int32]:
        columns = self._enumeration.table.columns
        chosen = (columns.types == place.known) & (columns.levels <= largest)
        return np.flatnonzero(chosen).astype(np.int32)

    def _solved(
        self, place: _Place, known: npt.NDArray[np.int32], target: SmallArray
    ) -> tuple[SmallArray, npt.NDArray[np.bool_]]:
        """The solution for each known class, stacked as values are, and whether it is one."""
        values = SmallArray(self._enumeration.values_of(place.known, known).residue)
        wanted = SmallArray(np.repeat(target.residue, len(known), axis=0))
        constant, one = (
            place.applied(values, SmallArray(np.full(wanted.residue.shape, number, np.float32)))
            for number in (0, 1)
        )
        slope = _DOMAIN.subtract(one, constant)
        solution = _DOMAIN.divide(_DOMAIN.subtract(wanted, constant), slope)
        reached = place.applied(values, solution).residue == wanted.residue
        return solution, reached.reshape(VECTORS, len(known), -1).all(axis=(0, 2))


def _fits(operator: Operator, place: int, unknown: InputType, known: InputType) -> bool:
    types = (unknown.tensor, known.tensor) if place == 0 else (known.tensor, unknown.tensor)
    try:
        (result,) = operator.infer(*types)
    except IllTypedError:
        return False
    return result.shape == unknown.shape and not operator.comparing


def _chosen(values: SmallArray, index: int) -> SmallArray:
    """One of the values of a stack."""
    return SmallArray(values.residue.reshape(VECTORS, -1, *values.residue.shape[1:])[:, index])


__all__ = ["Solver"]

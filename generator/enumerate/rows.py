"""Terms as table rows that refer to the rows of their arguments; terms are built on demand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from superopt.generator.enumerate.joins import Indices
from superopt.generator.presets.preset import Instance
from superopt.ir.terms import Term
from superopt.ops.terms import application


@dataclass(frozen=True, slots=True)
class TermRows:
    """[n] terms: ``numbers`` of their operators, -1 for a leaf; ``arguments`` [n, arity] are rows, -1: none.

    The first argument of a leaf is its index among ``leaves``. ``classes`` [n] are the rows of class
    representatives; arguments are such rows.
    """

    leaves: tuple[Term, ...]
    instances: tuple[Instance, ...]
    numbers: Indices
    arguments: Indices
    classes: Indices

    @property
    def leads_upwards(self) -> bool:
        """Whether some operator gives a role that it does not take."""
        return any(role not in roles for instance in self.instances for roles, role in instance.signatures)

    def only(self, rows: Indices) -> tuple[TermRows, Indices]:
        """The table of these rows with their subterms and representatives; and [n] their new rows."""
        needed = np.zeros(len(self.numbers), bool)
        frontier = np.unique(rows)
        while len(frontier):
            needed[frontier] = True
            arguments = self.arguments[frontier][self.numbers[frontier] >= 0]
            frontier = np.unique(np.concatenate((arguments[arguments >= 0], self.classes[frontier])))
            frontier = frontier[~needed[frontier]]
        kept = np.flatnonzero(needed)
        places = np.full(len(needed) + 1, -1, np.int32)
        places[kept] = np.arange(len(kept), dtype=np.int32)
        numbers, arguments = self.numbers[kept], self.arguments[kept]
        moved = np.where((numbers >= 0)[:, None], places[arguments], arguments)
        moved = moved.astype(np.int32)
        table = TermRows(self.leaves, self.instances, numbers, moved, places[self.classes[kept]])
        return table, places[rows]

    def with_applied(self, number: int, arguments: Indices) -> tuple[TermRows, Indices]:
        """The table with one operator applied to each of these rows, and [n] the rows of the results."""
        new = np.full((len(arguments), self.arguments.shape[1]), -1, np.int32)
        new[:, 0] = arguments
        numbers = np.concatenate((self.numbers, np.full(len(arguments), number, np.int32)))
        made = np.arange(len(self.numbers), len(numbers), dtype=np.int32)
        arguments, classes = np.concatenate((self.arguments, new)), np.concatenate((self.classes, made))
        return TermRows(self.leaves, self.instances, numbers, arguments, classes), made


class TermBuilder:
    """Builds terms of a table; equal rows share one object."""

    def __init__(self, rows: TermRows) -> None:
        self._rows = rows
        self._built: dict[int, Term] = {}

    def term(self, row: int) -> Term:
        """The term of a row."""
        built = self._built.get(row)
        if built is None:
            number = int(self._rows.numbers[row])
            arguments: list[int] = self._rows.arguments[row].tolist()
            if number < 0:
                built = self._rows.leaves[arguments[0]]
            else:
                instance = self._rows.instances[number]
                inputs = [self.term(argument) for argument in arguments if argument >= 0]
                built = application(instance.name, dict(instance.attributes), *inputs)
            self._built[row] = built
        return built

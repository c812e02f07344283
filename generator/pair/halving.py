"""Detection of last-level terms whose two halves along some axis are known; sources of merges."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from superopt.generator.enumerate.applications import Applications
from superopt.generator.enumerate.classes import ClassTable
from superopt.generator.enumerate.evaluation import Drivers, Evaluation
from superopt.generator.enumerate.joins import Indices, distinct_rows
from superopt.generator.enumerate.last_level import Membership
from superopt.generator.enumerate.levels import Piece
from superopt.generator.presets.preset import Instance, Stage
from superopt.ops.traits import HALVES

Split = tuple[int, int, int]
"""(first half, second half, axis): two instances and the axis along which they cut."""


class Halving:
    """Matches keys of halves of results against the classes of lower levels, without computing results."""

    def __init__(
        self,
        stage: Stage,
        table: ClassTable,
        applications: Applications,
        evaluation: Evaluation,
        splits: Sequence[Split],
    ) -> None:
        self._stage = stage
        self._table = table
        self._applications = applications
        self._evaluation = evaluation
        self._splits = splits
        self._known = Membership(table.keys)

    def known(self, piece: Piece, drivers: Drivers) -> npt.NDArray[np.bool_]:
        """Of each term, whether both its halves along some axis are known classes."""
        found = np.zeros(piece.count, bool) if piece.kept is None else np.zeros(piece.kept.shape, bool)
        for first, second, axis in self._splits:
            if self._applications.joins(piece.operator, piece.types, axis):
                continue
            joints = self._joints(piece, drivers.classes, axis)
            for size in np.unique(joints).tolist():
                chosen = joints == size
                for number, start in ((first, 0), (second, size)):
                    if size and chosen.any():
                        chosen = self._with_known_part(piece, drivers, chosen, number, axis, start, size)
                if size:
                    found |= chosen
        return found if piece.kept is None else found[piece.kept]

    def _with_known_part(
        self,
        piece: Piece,
        drivers: Drivers,
        chosen: npt.NDArray[np.bool_],
        number: int,
        axis: int,
        start: int,
        size: int,
    ) -> npt.NDArray[np.bool_]:
        """Those of the chosen terms whose part that begins at ``start`` is a known class."""
        cut = self._stage.instances[number].cut_at(size)
        part = self._applications.output(number, (piece.output,), cut)
        some = piece.those(chosen)
        if part is None or not some.count:
            return np.zeros(chosen.shape, bool)
        functional = self._evaluation.part(piece.output, part, axis, start)
        known = self._known.contains(self._evaluation.keys(some, drivers, functional))
        result = chosen if some.kept is None else some.kept
        result = result.copy()
        result[result] = known
        return result

    def _joints(self, piece: Piece, classes: Indices, axis: int) -> npt.NDArray[np.intp]:
        """Where results were concatenated along an axis, 0 if not: [count], or [drivers, partners]."""
        trees = self._table.columns.trees
        if piece.kept is None or len(piece.types) != 2:
            return self._joints_of(piece, trees[piece.arguments(classes)], axis)
        rows, row_of = np.unique(trees[classes], return_inverse=True)
        columns, column_of = np.unique(trees[piece.partners[:, 0]], return_inverse=True)
        pairs = [np.repeat(rows, len(columns)), np.tile(columns, len(rows))]
        joints = self._joints_of(piece, np.stack(pairs[:: 1 if piece.place == 0 else -1], axis=1), axis)
        return joints.reshape(len(rows), len(columns))[row_of][:, column_of]

    def _joints_of(self, piece: Piece, trees: Indices, axis: int) -> npt.NDArray[np.intp]:
        distinct, inverse = distinct_rows(trees)
        results = self._applications.trees(piece.number, piece.types, piece.output, distinct)
        joints = [self._applications.joint(axis, piece.output, t) or 0 for t in results.tolist()]
        return np.array(joints, np.intp)[inverse]


def splits_of(instances: Sequence[Instance]) -> tuple[Split, ...]:
    """(first half, second half, axis) of the splits along each axis."""
    numbered = [(number, i) for number, i in enumerate(instances) if i.operator is None]
    return tuple(
        (m, n, a.axis)
        for (m, a), (n, b) in itertools.product(numbered, repeat=2)
        if (a.name, b.name) == HALVES and a.axis == b.axis
    )

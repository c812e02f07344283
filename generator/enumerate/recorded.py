"""Recorded terms of an enumeration by row: structures, cheapest equal terms, construction of terms."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from superopt.generator.enumerate.enumeration import Enumeration
from superopt.generator.enumerate.joins import Indices, union
from superopt.generator.enumerate.rows import TermRows
from superopt.generator.enumerate.structures import Grammar, Structures
from superopt.ir.terms import Term, Variable

Masks: TypeAlias = "npt.NDArray[np.uint64]"


class RecordedTerms:
    """The terms of an enumeration, without its arrays; arguments are the cheapest terms of their classes.

    ``first`` [classes] is the cheapest term, -1 if none is recorded; ``masks`` [terms] are bit sets of
    inputs, then constants.
    """

    def __init__(self, enumeration: Enumeration) -> None:
        stage, table, columns = enumeration.stage, enumeration.terms, enumeration.table.columns
        self.stage = stage
        self.instances = table.instances
        self.arguments = table.arguments
        self.classes = table.classes
        self.sizes = table.sizes
        order = np.lexsort((np.arange(len(table.sizes)), table.sizes, table.classes))
        starts = np.flatnonzero(np.diff(table.classes[order], prepend=-1))
        self.first: Indices = np.full(enumeration.table.count, -1, np.int32)
        self.first[table.classes[order[starts]]] = order[starts]
        self.types = columns.types
        below = np.flatnonzero(columns.levels < stage.max_ops)
        self._below = int(below[-1]) + 1 if len(below) else 0
        self._parts = columns.parts[: self._below]
        self._levels = columns.levels[: self._below]
        self.commutative = enumeration.commutative
        self.grammar = Grammar(stage, table.arguments.shape[1])
        self._classes = self._class_structures()
        self.masks = self._leaf_masks()

    def rows(self) -> TermRows:
        """All terms as a table of rows."""
        stage = self.stage
        leaves: list[Term] = [Variable(tensor.name) for tensor in stage.inputs]
        leaves += [constant.term for constant in stage.constants]
        applied = (self.instances >= 0)[:, None] & (self.arguments >= 0)
        arguments = np.where(applied, self.first[np.maximum(self.arguments, 0)], self.arguments)
        classes = self.first[self.classes]
        return TermRows(tuple(leaves), stage.instances, self.instances, arguments.astype(np.int32), classes)

    def structures(self, rows: Indices) -> Structures:
        """The structures of terms."""
        instances = self.instances[rows]
        found = self.grammar.applied(np.maximum(instances, 0), self._arguments_of(rows), self._classes)
        leaves = np.flatnonzero(instances < 0)
        if len(leaves):
            known = self._classes.take(self.classes[rows[leaves]])
            found.forms[leaves], found.heights[leaves] = known.forms, known.heights
            found.leaves[leaves], found.operators[leaves] = known.leaves, known.operators
            found.places[leaves], found.first[leaves] = known.places, known.first
        return found

    def tree_sizes(self, rows: Indices) -> Indices:
        """[n] the number of operators of each term as a tree."""
        arguments = self._arguments_of(rows)
        inner = np.where(arguments >= 0, self._classes.operators[np.maximum(arguments, 0)], 0).sum(axis=1)
        return np.where(self.instances[rows] >= 0, inner + 1, 0).astype(np.int32)

    def parts(self, rows: Indices) -> Indices:
        """[n, width] the classes of the proper subterms of each term, but inputs and constants; -1: none."""
        arguments = self._arguments_of(rows)
        empty = np.full((1, self._parts.shape[1]), -1, np.int32)
        table = np.concatenate((self._parts, empty))
        found = table[arguments[:, 0]]
        for place in range(1, arguments.shape[1]):
            found = union(found, table[arguments[:, place]])
        return found

    def class_parts(self, classes: Indices) -> Indices:
        """[n, width] the classes of the subterms of the cheapest term of each class, itself included."""
        return self._parts[classes]

    def _arguments_of(self, rows: Indices) -> Indices:
        return np.where(self.instances[rows][:, None] >= 0, self.arguments[rows], -1)

    @property
    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the inputs by their names, those of divided ones as a whole."""
        return {tensor.name: tensor.type.whole_shape for tensor in self.stage.inputs}

    @property
    def inputs(self) -> np.uint64:
        """The bits of all inputs."""
        return np.uint64((1 << len(self.stage.inputs)) - 1)

    def _leaf_masks(self) -> Masks:
        """[terms] the inputs and constants of each term."""
        of_classes = np.zeros(self._below + 1, np.uint64)

        def of(rows: Indices | slice) -> Masks:
            arguments, leaf = self.arguments[rows], self.instances[rows] < 0
            own = np.uint64(1) << np.maximum(arguments[:, 0], 0).astype(np.uint64)
            inner = np.bitwise_or.reduce(of_classes[np.where(leaf[:, None], -1, arguments)], axis=1)
            return np.where(leaf, own, inner)

        for level in range(self.stage.max_ops):
            classes = np.flatnonzero(self._levels == level)
            of_classes[classes] = of(self.first[classes])
        return of(slice(None))

    def _class_structures(self) -> Structures:
        leaves = self.grammar.leaves(self.stage)
        count, width = self._below, leaves.places.shape[1]
        found = Structures(
            np.zeros(count, np.uint64),
            np.zeros(count, np.int32),
            np.zeros(count, np.int32),
            np.zeros(count, np.int32),
            np.zeros((count, width), np.uint64),
            np.zeros((count, width), np.int32),
        )
        for level in range(self.stage.max_ops):
            classes = np.flatnonzero(self._levels == level)
            rows = self.first[classes]
            made = (
                leaves.take(self.arguments[rows, 0])
                if level == 0
                else self.grammar.applied(self.instances[rows], self.arguments[rows], found)
            )
            found.forms[classes], found.heights[classes] = made.forms, made.heights
            found.leaves[classes], found.operators[classes] = made.leaves, made.operators
            found.places[classes], found.first[classes] = made.places, made.first
        return found

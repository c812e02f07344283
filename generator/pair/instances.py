"""Detection of pairs that are instances of others, by replacing common subterms and looking up classes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from superopt.generator.enumerate.joins import Indices
from superopt.generator.enumerate.recorded import Masks, RecordedTerms
from superopt.generator.enumerate.structures import Hashes, Rows, hashed_rows

_BITS = np.uint64(21)


class Shortening:
    """Finds terms with a common subterm replaced by an unused input of its type.

    The shortened terms are looked up among recorded terms; nothing is found if one is missing or no input is
    unused. If they are in one class, the pair is an instance (dissertation, section 2.3).
    """

    def __init__(self, terms: RecordedTerms) -> None:
        self._terms = terms
        rows = np.flatnonzero((terms.instances >= 0) & (terms.sizes < terms.stage.max_ops)).astype(np.int32)
        keys = hashed_rows(terms.instances[rows], terms.arguments[rows])
        order = np.argsort(keys, kind="stable")
        self._keys: Hashes = keys[order]
        self._rows: Indices = rows[order]
        self._inputs = self._inputs_by_type()
        count = len(terms.stage.inputs)
        leaves = np.flatnonzero(terms.instances < 0)
        indices, classes = terms.arguments[leaves, 0], terms.classes[leaves]
        self._constants = [
            (i, c) for i, c in zip(indices.tolist(), classes.tolist(), strict=True) if i >= count
        ]

    def shorter(self, left: Indices, right: Indices) -> Iterator[tuple[Rows, tuple[Indices, Indices]]]:
        """``without_parts`` of pairs of terms, those that are in one class."""
        for pairs, (one, other) in self.without_parts((left, right)):
            same = np.flatnonzero(self._terms.classes[one] == self._terms.classes[other])
            yield pairs[same], (one[same], other[same])

    def without_parts(self, sides: tuple[Indices, ...]) -> Iterator[tuple[Rows, tuple[Indices, ...]]]:
        """(numbers, rows) of tuples of terms with one subterm or constant made an input, all known."""
        terms = self._terms
        for side in sides:
            for parts in terms.parts(side).T:
                yield from self._without(sides, parts)
        leaves = np.bitwise_or.reduce([terms.masks[side] for side in sides])
        for bit, number in self._constants:
            present = (leaves >> np.uint64(bit)) & np.uint64(1) != 0
            yield from self._without(sides, np.where(present, np.int32(number), np.int32(-1)))

    def _without(
        self, sides: tuple[Indices, ...], parts: Indices
    ) -> Iterator[tuple[Rows, tuple[Indices, ...]]]:
        pairs = np.flatnonzero(parts >= 0)
        parts = parts[pairs]
        used = np.zeros(len(pairs), np.uint64)
        for side in sides:
            used |= self._remaining(side[pairs], parts)
        inputs = self._unused_input(parts, used)
        usable = np.flatnonzero(inputs >= 0)
        pairs, parts, inputs = pairs[usable], parts[usable], inputs[usable]
        if len(pairs):
            rows = [self._rows_without(side[pairs], parts, inputs) for side in sides]
            known = np.flatnonzero(np.minimum.reduce(rows) >= 0)
            yield pairs[known], tuple([row[known] for row in rows])

    def _rows_without(self, rows: Indices, parts: Indices, inputs: Indices) -> Indices:
        """[n] the row of each term with the part made an input, -1 where it is not recorded."""
        result = rows.copy()
        leaves = self._terms.instances[rows] < 0
        whole = rows == self._terms.first[parts]
        result[whole] = self._terms.first[inputs[whole]]
        chosen = np.flatnonzero(~leaves & ~whole)
        result[chosen] = self._applications_without(rows[chosen], parts[chosen], inputs[chosen])
        return result

    def _applications_without(self, rows: Indices, parts: Indices, inputs: Indices) -> Indices:
        arguments = self._terms.arguments[rows]
        replaced = np.stack(
            [self._replaced(arguments[:, place], parts, inputs) for place in range(arguments.shape[1])],
            axis=1,
        )
        return self._known(self._terms.instances[rows], replaced)

    def _replaced(self, classes: Indices, parts: Indices, inputs: Indices) -> Indices:
        """[n] the class of each class's cheapest term with the part made an input; -2: unknown, -1: none."""
        result = np.where(classes == parts, inputs, classes)
        inside = np.flatnonzero(self._contains(classes, parts) & (classes != parts))
        if not len(inside):
            return result
        packed = _packed(classes[inside], parts[inside], inputs[inside])
        _, first, inverse = np.unique(packed, return_index=True, return_inverse=True)
        chosen = inside[first]
        rows = self._rows_without(self._terms.first[classes[chosen]], parts[chosen], inputs[chosen])
        found = np.where(rows >= 0, self._terms.classes[rows], -2)
        result[inside] = found[inverse]
        return result

    def _remaining(self, rows: Indices, parts: Indices) -> Masks:
        """[n] the inputs of terms outside a subterm, as bits."""
        leaves = self._terms.instances[rows] < 0
        arguments = np.where(leaves[:, None], -1, self._terms.arguments[rows])
        masks = np.where(leaves, self._terms.masks[rows], np.uint64(0))
        for place in range(arguments.shape[1]):
            classes = arguments[:, place]
            first = self._terms.first[classes]
            own = np.where((classes >= 0) & (classes != parts), self._terms.masks[first], np.uint64(0))
            inside = np.flatnonzero(self._contains(classes, parts) & (classes != parts))
            if len(inside):
                own[inside] = self._remaining(first[inside], parts[inside])
            masks |= own
        return np.where(rows == self._terms.first[parts], np.uint64(0), masks)

    def _contains(self, classes: Indices, parts: Indices) -> npt.NDArray[np.bool_]:
        known = np.maximum(classes, 0)
        found = (self._terms.class_parts(known) == parts[:, None]).any(axis=1)
        for bit, number in self._constants:
            mask = self._terms.masks[self._terms.first[known]] >> np.uint64(bit) & np.uint64(1)
            found |= (parts == number) & (mask != 0)
        return found & (classes >= 0)

    def _unused_input(self, parts: Indices, used: Masks) -> Indices:
        """[n] the class of the first input of each part's type that is not used, -1 where there is none."""
        found = np.full(len(parts), -1, np.int32)
        of_type = self._terms.types[parts]
        for type_, inputs in self._inputs.items():
            for index, number in reversed(inputs):
                free = (of_type == type_) & ((used >> np.uint64(index)) & np.uint64(1) == 0)
                found[free] = number
        return found

    def _inputs_by_type(self) -> dict[int, list[tuple[int, int]]]:
        """(index, class) of the inputs by the number of their type."""
        found: dict[int, list[tuple[int, int]]] = {}
        terms = self._terms
        for row in np.flatnonzero(terms.instances < 0).tolist():
            index, number = int(terms.arguments[row, 0]), int(terms.classes[row])
            if index < len(terms.stage.inputs):
                found.setdefault(int(terms.types[number]), []).append((index, number))
        return found

    def _known(self, instances: Indices, arguments: Indices) -> Indices:
        """[n] the row of each application, -1 where it is not recorded."""
        if not len(self._keys):
            return np.full(len(instances), -1, np.int32)
        found = self._located(instances, arguments)
        swapped = np.isin(instances, np.array(sorted(self._terms.commutative), np.int32)) & (found < 0)
        again = np.flatnonzero(swapped)
        if len(again):
            flipped = arguments[again].copy()
            flipped[:, :2] = flipped[:, 1::-1]
            found[again] = self._located(instances[again], flipped)
        return np.where((arguments < -1).any(axis=1), np.int32(-1), found)

    def _located(self, instances: Indices, arguments: Indices) -> Indices:
        keys = hashed_rows(instances, arguments)
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[at] == keys, self._rows[at], np.int32(-1)).astype(np.int32)


def _packed(classes: Indices, parts: Indices, inputs: Indices) -> Hashes:
    packed = classes.astype(np.uint64)
    for column in (parts, inputs):
        packed = (packed << _BITS) | column.astype(np.uint64)
    return packed

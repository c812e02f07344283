"""Fingerprint keys of pieces: by matrix products for linear and bilinear operators, else by evaluation."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from superopt.domains.arrays import Device, namespace, reshaped
from superopt.domains.small_field import SmallArray, Wide, exact_matmul, reduced_in_place
from superopt.generator.enumerate.applications import Types
from superopt.generator.enumerate.classes import ClassTable, TypeId
from superopt.generator.enumerate.fingerprints import VECTORS, Fingerprints, Keys, applied, projected
from superopt.generator.enumerate.joins import Indices
from superopt.generator.enumerate.levels import Block, Levels, Piece
from superopt.generator.enumerate.linear_maps import (
    CHUNK_ELEMENTS,
    Form,
    Shape,
    form_of,
    linear_forms,
    partner_forms,
)
from superopt.generator.enumerate.values import Values
from superopt.generator.presets.preset import InputType
from superopt.ops import Operator

CACHED_BYTES = 1 << 28

PROBES = 4
"""Approximate one-time cost of a bilinear operator, in evaluations per unit tensor."""


@dataclass(frozen=True)
class Functional:
    """A linear form of results, [vectors, elements], and the type whose keys it gives.

    ``placed`` are the weights on the device.
    """

    name: tuple[object, ...]
    weights: Wide
    placed: Wide
    type: InputType


@dataclass(frozen=True)
class Drivers:
    """The classes of a block with their values, computed lazily."""

    block: Block
    classes: Indices
    _values: Values

    @cached_property
    def values(self) -> SmallArray:
        """The values: all classes at the first test vector, then at the next ones."""
        return self._values.take(self.block.type, self.classes)

    @cached_property
    def wide(self) -> Wide:
        """[vectors, classes, elements] their residues."""
        xp = namespace(self.values.residue)
        return xp.astype(reshaped(self.values.residue, (VECTORS, len(self.classes), -1)), xp.float64)


class Evaluation:
    """Computes keys on a device; caches the forms of partners of linear and bilinear operators."""

    def __init__(
        self,
        table: ClassTable,
        levels: Levels,
        values: Values,
        fingerprints: Fingerprints,
        device: Device,
    ) -> None:
        self._device = device
        self._table = table
        self._levels = levels
        self._values = values
        self._fingerprints = fingerprints
        self._cache: OrderedDict[tuple[object, ...], tuple[Wide, ...]] = OrderedDict()
        self._cached = 0

    def drivers(self, block: Block) -> Drivers:
        """The drivers of a block."""
        return Drivers(block, self._levels.classes(block), self._values)

    def whole(self, type_: TypeId) -> Functional:
        """The linear form of results of a type."""
        known = self._table.types[type_]
        return Functional((), self._fingerprints.weights(known), self._fingerprints.placed(known), known)

    def part(self, type_: TypeId, part: TypeId, axis: int, start: int) -> Functional:
        """The form of the slice of results that begins at ``start`` along an axis."""
        whole, cut = self._table.types[type_], self._table.types[part]
        weights = np.zeros((VECTORS, *whole.shape))
        index: list[slice] = [slice(None)] * (1 + len(whole.shape))
        along = axis % len(whole.shape)
        index[1 + along] = slice(start, start + cut.shape[along])
        weights[tuple(index)] = self._fingerprints.weights(cut).reshape(VECTORS, *cut.shape)
        flat = weights.reshape(VECTORS, -1)
        return Functional((part, axis, start), flat, self._device.put(flat), cut)

    def keys(self, piece: Piece, drivers: Drivers, functional: Functional) -> Keys:
        """The keys of all terms of a piece, in order."""
        form = form_of(piece.operator, self._shapes(piece.types))
        if form is Form.LINEAR and piece.place >= 0 and self._repays(piece, functional):
            forms = self._linear(piece, drivers, functional)
        elif form is Form.BILINEAR and piece.kept is not None and self._pays(piece, drivers.block):
            forms = self._bilinear(piece, piece.kept, drivers, functional)
        else:
            forms = self._evaluated(piece, drivers, functional)
        return self._fingerprints.packed(functional.type, forms)

    def evaluated_keys(self, piece: Piece, drivers: Drivers, functional: Functional) -> Keys:
        """As ``keys``, always by evaluation."""
        return self._fingerprints.packed(functional.type, self._evaluated(piece, drivers, functional))

    def _pays(self, piece: Piece, block: Block) -> bool:
        """Whether a matrix product is cheaper: more terms than unit tensors."""
        units = min(int(np.prod(self._table.types[t].shape, dtype=np.int64)) for t in piece.types)
        drivers = len(self._levels.members(block.type, block.level))
        return drivers * len(piece.partners) * VECTORS > PROBES * units

    def _repays(self, piece: Piece, functional: Functional) -> bool:
        """Whether the linear form is cached, or has fewer unit tensors than the piece has terms."""
        units = sum(int(np.prod(self._table.types[t].shape, dtype=np.int64)) for t in piece.types)
        known = ("linear", piece.operator, piece.types, functional.name) in self._cache
        return known or piece.count * VECTORS > units

    def _linear(self, piece: Piece, drivers: Drivers, functional: Functional) -> Wide:
        forms = self._linear_forms(piece.operator, piece.types, functional)
        own = applied(forms[piece.place], drivers.wide)
        xp = namespace(own)
        if piece.kept is None:
            chosen = xp.take(own, self._device.put(piece.drivers), axis=1)
            if len(piece.types) == 1:
                return chosen
            return reduced_in_place(chosen + self._added(piece, drivers, piece.partners[:, 0], functional))
        added = self._added(piece, drivers, piece.partners[:, 0], functional)
        kept = self._device.put(piece.kept)
        sums = [(own[vector, :, None] + added[vector, None, :])[kept] for vector in range(VECTORS)]
        return reduced_in_place(xp.stack(sums))

    def _added(self, piece: Piece, drivers: Drivers, partners: Indices, functional: Functional) -> Wide:
        """[vectors, n] the contribution of each partner to the form of a LINEAR operator."""
        forms = self._linear_forms(piece.operator, piece.types, functional)[1 - piece.place]
        if piece.kept is None and (drivers.classes[piece.drivers] == partners).all():
            chosen = self._device.put(piece.drivers)
            return applied(forms, namespace(drivers.wide).take(drivers.wide, chosen, axis=1))
        level = int(self._table.columns.levels[partners[0]])
        type_ = piece.types[1 - piece.place]
        members = self._levels.members(type_, level)
        key = ("added", piece.operator, piece.types, piece.place, level, functional.name)
        found = self._known(key)
        if found is None:
            step = self._values.step(type_)
            blocks = [
                projected(self._values.take(type_, members[start : start + step]), forms)
                for start in range(0, len(members), step)
            ]
            found = self._remembered(key, (namespace(forms).concat(blocks, axis=1),))
        places = self._device.put(np.searchsorted(members, partners))
        return namespace(forms).take(found[0], places, axis=1)

    def _bilinear(
        self, piece: Piece, kept: npt.NDArray[np.bool_], drivers: Drivers, functional: Functional
    ) -> Wide:
        partners = piece.partners[:, 0]
        key = (
            *("bilinear", piece.operator, piece.types, piece.place),
            *(int(partners[0]), int(partners[-1]), functional.name),
        )
        found = self._known(key)
        if found is None:
            values = self._values.take(piece.types[1 - piece.place], partners)
            shapes = self._shapes(piece.types)
            forms = partner_forms(
                piece.operator, shapes, piece.place, values, functional.weights, self._device
            )
            found = self._remembered(key, (forms,))
        chosen = self._device.put(kept)
        wide, forms = drivers.wide, found[0]
        products = [exact_matmul(wide[v, ...], forms[v, ...])[chosen] for v in range(VECTORS)]
        return namespace(wide).stack(products)

    def _evaluated(self, piece: Piece, drivers: Drivers, functional: Functional) -> Wide:
        step = max(1, CHUNK_ELEMENTS // (functional.weights.shape[1] * VECTORS))
        rows, partners = piece.pairs()
        same = piece.place >= 0 and bool((drivers.classes[rows] == partners).all())
        found: list[Wide] = []
        for start in range(0, piece.count, step):
            chosen = slice(start, start + step)
            if piece.place < 0:
                arrays = [
                    self._values.take(t, piece.partners[chosen, place]) for place, t in enumerate(piece.types)
                ]
            else:
                own = self._values.selected(drivers.values, rows[chosen])
                arrays = [own] * len(piece.types)
                if not same:
                    other = self._values.take(piece.types[1 - piece.place], partners[chosen])
                    arrays = [own, other] if piece.place == 0 else [other, own]
            found.append(projected(self._values.evaluated(piece.operator, arrays), functional.placed))
        return found[0] if len(found) == 1 else namespace(functional.placed).concat(found, axis=1)

    def _linear_forms(self, operator: Operator, types: Types, functional: Functional) -> tuple[Wide, ...]:
        key = ("linear", operator, types, functional.name)
        found = self._known(key)
        if found is None:
            forms = linear_forms(operator, self._shapes(types), functional.weights)
            found = self._remembered(key, tuple(self._device.put(form) for form in forms))
        return found

    def _shapes(self, types: Types) -> tuple[Shape, ...]:
        return tuple(self._table.types[t].shape for t in types)

    def _known(self, key: tuple[object, ...]) -> tuple[Wide, ...] | None:
        if key in self._cache:
            self._cache.move_to_end(key)
        return self._cache.get(key)

    def _remembered(self, key: tuple[object, ...], forms: tuple[Wide, ...]) -> tuple[Wide, ...]:
        self._cache[key] = forms
        self._cached += sum(8 * form.size for form in forms)
        while self._cached > CACHED_BYTES and len(self._cache) > 1:
            _, oldest = self._cache.popitem(last=False)
            self._cached -= sum(8 * form.size for form in oldest)
        return forms

"""Sampler of well-typed instances: schemes with sizes chosen as edge cases.

Sizes are 1, coprime, unequal; channels come in groups; splits are uneven. A *symbolic* instance keeps every
size a symbol but those of kernels: what holds of it holds for all sizes.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator
from math import prod

from superopt.instances.instance import Instance
from superopt.instances.schemes import Scheme, SchemeSearch
from superopt.ir.dimensions import Dimension, symbol
from superopt.ir.terms import Application, Equation, variables
from superopt.ops.sharded.sharding import divisions_of, replicas_of
from superopt.ops.traits import traits
from superopt.rewriting.divisions import divisions_needed, variable_type
from superopt.rewriting.typing import FRESH
from superopt.sorted_sets import SortedSet as frozenset  # noqa: N813

MAX_ELEMENTS = 3000
_PASSES = 6
_SIZES = (1, 2, 2, 3, 3, 4, 5)
_SMALL_SIZES = (1, 2, 2, 3)
_SPATIAL_SIZES = (1, 2, 3, 4, 5, 6, 7)
_KERNEL_SIZES = (1, 2, 3, 3, 5)
_LARGE_SIZES = (8, 10, 13, 16, 24, 33, 48, 64, 96, 128)
"""Sizes of images for windows that fit into none of the others, the smallest first that do."""

_FEW_ELEMENTS = 100
MOST_DECLARED = 4_000_000
"""More elements than that in a tensor as a rule declares it are not tried."""


class InstanceSampler:
    """Well-typed instances of one equation, the same for the same seed; schemes are searched for once.

    Each variable is divided as combine, reduce and batch require, and no further: about others, an equation
    claims nothing.
    """

    def __init__(self, equation: Equation, seed: int) -> None:
        self.equation = equation
        self._random = random.Random(seed)
        self._of_images = random.Random(seed + 1)
        self._search = iter(SchemeSearch(equation, self._random))
        self._schemes: list[Scheme] = []
        self._kernels = frozenset(kernel_symbols(equation.applications))
        self.declared_elements = _declared_elements(equation)

    def schemes(self, count: int) -> Iterator[Scheme]:
        """Up to ``count`` different schemes, from the first one every time."""
        for number in range(count):
            if number == len(self._schemes):
                self._schemes.extend(itertools.islice(self._search, 1))
            if number == len(self._schemes):
                return
            yield self._schemes[number]

    def instances(self, schemes: int, per_scheme: int, largest: int = MAX_ELEMENTS) -> Iterator[Instance]:
        """Instances whose tensors have at most ``largest`` elements and whose conditions hold.

        Where no limit is asked for, tensors as large as the equation declares are within it. Where there are
        few schemes, they come again, for as many instances as schemes were asked for.
        """
        if largest >= MAX_ELEMENTS and self.declared_elements <= MOST_DECLARED:
            largest = max(largest, 4 * self.declared_elements)
        found = 0
        for _ in range(_PASSES):
            for scheme in self.schemes(schemes):
                for instance in filter(self._is_claimed, self.concrete(scheme, per_scheme, largest)):
                    yield instance
                    found += 1
            if found >= schemes:
                return

    def _is_claimed(self, instance: Instance) -> bool:
        ranks = {name: type_.rank for name, type_ in instance.types.items()}
        needed = divisions_needed(self.equation, ranks, instance.attributes)
        asked = {name: variable_type(name, type_.shape, needed) for name, type_ in instance.types.items()}
        return all(
            (divisions_of(type_), replicas_of(type_)) == (divisions_of(asked[name]), replicas_of(asked[name]))
            for name, type_ in instance.types.items()
        )

    def concrete(self, scheme: Scheme, count: int, largest: int = MAX_ELEMENTS) -> Iterator[Instance]:
        """Up to ``count`` instances of one scheme; none when numbers that fit are hard to find."""
        found = 0
        for _ in range(10 * count):
            numbers = {name: self._number(name, largest) for name in sorted(scheme.symbols)}
            instance = scheme.sized(self.equation, numbers, largest)
            if instance is not None:
                yield instance
                found += 1
            if found == count:
                return
        if found == 0:
            yield from self._of_large_images(scheme, count, largest)

    def _of_large_images(self, scheme: Scheme, count: int, largest: int) -> Iterator[Instance]:
        """Instances of a scheme whose windows need images of more rows and columns."""
        free = sorted(scheme.symbols)
        images = frozenset(name for name in free if name.endswith((".2", ".3"))) - self._kernels
        for size in _LARGE_SIZES if images else ():
            most = largest if largest < MAX_ELEMENTS else max(largest, 4 * size * size)
            if size * size > most:
                return
            found = 0
            for _ in range(4 * count):
                numbers = {
                    n: self._number(n, largest if n in self._kernels else 0, self._of_images) for n in free
                }
                numbers |= {n: size + self._of_images.choice((0, 0, 1, 2)) for n in images}
                instance = scheme.sized(self.equation, numbers, most)
                if instance is not None:
                    yield instance
                    found += 1
                if found == count:
                    break
            if found:
                return

    def symbolic(self, scheme: Scheme) -> Instance | None:
        """The scheme with numbers for sizes of kernels alone; None when its conditions are not decided."""
        free = sorted(scheme.symbols)
        names: dict[str, Dimension] = {
            name: symbol(name.replace(FRESH, "implicit ")) for name in free if name.startswith(FRESH)
        }
        kernels = [name for name in free if name in self._kernels]
        for _ in range(6 if kernels else 1):
            numbers = names | {name: self._random.choice(_KERNEL_SIZES) for name in kernels}
            instance = scheme.at(self.equation, numbers)
            if instance is not None:
                sizes = (size for type_ in instance.typing.types.values() for size in type_.shape)
                return None if any(isinstance(size, int) and size < 1 for size in sizes) else instance
        return None

    def _number(self, name: str, largest: int, generator: random.Random | None = None) -> int:
        choose = (generator or self._random).choice
        if largest < _FEW_ELEMENTS:
            return choose(_SMALL_SIZES)
        if name in self._kernels:
            return choose(_KERNEL_SIZES)
        return choose(_SPATIAL_SIZES if name.endswith((".2", ".3")) else _SIZES)


def _declared_elements(equation: Equation) -> int:
    """The elements of the largest tensor that the equation declares, as far as it says sizes in numbers."""
    shapes = (type_.shape for _, type_ in equation.types)
    return max([0, *(prod(size for size in shape if isinstance(size, int)) for shape in shapes)])


def kernel_symbols(terms: Iterable[Application]) -> Iterator[str]:
    """The symbols of sizes of kernels among the variables, which are chosen smaller than images."""
    for term in terms:
        kernel = traits(term.operator).kernel_input
        if kernel is None or kernel >= len(term.inputs):
            continue
        for name in variables(term.inputs[kernel]):
            yield from (f"{name}.2", f"{name}.3")

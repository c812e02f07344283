"""Generic typings of an equation: sizes are equal only if the equation requires it.

Derivations at such sizes are general, because no step can use accidentally equal sizes. All equations use the
same few numbers, so that cached types are shared. Kernels are even where they can be: several ways of padding
are the same for an odd one.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence

from superopt.instances.sampler import kernel_symbols
from superopt.instances.schemes import GeneralSearch, Scheme, symbolic_types
from superopt.instances.search import IMPLICIT
from superopt.ir.dimensions import Dimension, symbols_of
from superopt.ir.terms import Equation
from superopt.rewriting import Typing

_SIZES = (101, 103, 107, 109, 113, 127, 131, 137, 139, 149, 151, 157, 163, 167, 173, 179, 181, 191, 193, 197)
_EVEN = tuple(size + 1 for size in _SIZES)
_CUTS = (17, 19, 23, 29, 31, 37, 41, 43, 47)
_KERNEL = 3
"""Largest kernel size if not all sizes can be generic, as some operators require."""


def generic_typing(
    equation: Equation, shapes: Mapping[str, tuple[int, ...]], attributes: Mapping[str, object]
) -> Typing | None:
    """The equation typed for variables of the ranks of ``shapes``; None where no such sizes are found.

    If the equation is ill-typed otherwise, kernels keep their sizes, or all variables their shapes.
    """
    ranks = {name: len(shape) for name, shape in shapes.items()}
    kernels = tuple(kernel_symbols(equation.applications))
    for largest in (0, _KERNEL, max((size for shape in shapes.values() for size in shape), default=0)):
        kept = {
            f"{name}.{axis}": size
            for name, shape in shapes.items()
            for axis, size in enumerate(shape)
            if size <= largest and (axis >= 2 or largest > _KERNEL)
        }
        types = symbolic_types(equation, ranks, attributes, kept)
        found = GeneralSearch(equation, types, attributes).general()
        if found is None:
            continue
        for even in (kernels, ()):
            instance = found[1].sized(equation, _sizes(found[1], even), sys.maxsize)
            if instance:
                return instance.typing
    return None


def _sizes(scheme: Scheme, even: Collection[str]) -> dict[str, Dimension]:
    shapes = (type_.shape for type_ in scheme.types.values())
    named = dict.fromkeys(name for shape in shapes for size in shape for name in sorted(symbols_of(size)))
    cuts = sorted(name for name in scheme.symbols if name.startswith(IMPLICIT))
    numbered = _numbered([name for name in named if name not in cuts], _SIZES) | _numbered(cuts, _CUTS)
    return numbered | _numbered([name for name in named if name in even], _EVEN)


def _numbered(names: Sequence[str], numbers: Sequence[int]) -> dict[str, Dimension]:
    """The numbers in order; more than there are of them are spread above the largest."""
    more = range(numbers[-1] + 2, numbers[-1] + 2 + 2 * len(names), 2)
    return dict(zip(names, (*numbers, *more), strict=False))

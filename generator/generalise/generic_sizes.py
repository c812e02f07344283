"""Generic typings of an equation: sizes are equal only if the equation requires it.

Derivations at such sizes are general, because no step can use accidentally equal sizes. All equations use the
same few numbers, so that cached types are shared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from superopt.errors import IllTypedError
from superopt.ir.dimensions import Dimension, substitute, symbol, symbols_of
from superopt.ir.terms import Equation
from superopt.ir.types import TensorType
from superopt.rewriting import Typing, holds, type_equation
from superopt.rewriting.concrete import with_numbers
from superopt.rewriting.divisions import divisions_needed, variable_type

_SIZES = (101, 103, 107, 109, 113, 127, 131, 137, 139, 149, 151, 157, 163, 167, 173, 179, 181, 191, 193, 197)
_CUTS = (17, 19, 23, 29, 31, 37, 41, 43, 47)
_KERNEL = 3
"""Largest kernel size if not all sizes can be generic, as some operators require."""


def generic_typing(
    equation: Equation, shapes: Mapping[str, tuple[int, ...]], attributes: Mapping[str, object]
) -> Typing | None:
    """The equation typed for variables of the ranks of ``shapes``; None where no such sizes are found.

    If the equation is ill-typed otherwise, kernels keep their sizes, or all variables their shapes.
    """
    needed = divisions_needed(equation, {name: len(shape) for name, shape in shapes.items()}, attributes)
    for kept in (0, _KERNEL, max((size for shape in shapes.values() for size in shape), default=0)):
        types = {
            name: variable_type(
                name,
                [
                    size if size <= kept and (axis >= 2 or kept > _KERNEL) else symbol(f"{name}.{axis}")
                    for axis, size in enumerate(shape)
                ],
                needed,
            )
            for name, shape in shapes.items()
        }
        try:
            typing = type_equation(equation, types, attributes)
            return _closed(equation, types, typing, attributes, _sizes(types, typing))
        except IllTypedError:
            continue
    return None


def _sizes(types: Mapping[str, TensorType], typing: Typing) -> dict[str, Dimension]:
    names = dict.fromkeys(
        name
        for type_ in types.values()
        for size in type_.shape
        for name in sorted(symbols_of(substitute(size, typing.assignment)))
    )
    names |= dict.fromkeys(sorted(typing.unresolved))
    cuts = [name for name in names if name in typing.unresolved]
    sizes = [name for name in names if name not in typing.unresolved]
    return _numbered(sizes, _SIZES) | _numbered(cuts, _CUTS)


def _numbered(names: Sequence[str], numbers: Sequence[int]) -> dict[str, Dimension]:
    """The numbers in order; more than there are of them are spread above the largest."""
    more = range(numbers[-1] + 2, numbers[-1] + 2 + 2 * len(names), 2)
    return dict(zip(names, (*numbers, *more), strict=False))


def _closed(
    equation: Equation,
    types: Mapping[str, TensorType],
    typing: Typing,
    attributes: Mapping[str, object],
    sizes: Mapping[str, Dimension],
) -> Typing:
    """The typing with numbers for symbols; IllTypedError where they do not fit."""
    variables = {name: type_.substitute(typing.assignment).substitute(sizes) for name, type_ in types.items()}
    if not all(type_.is_sized for type_ in variables.values()):
        raise IllTypedError("sizes are not positive")
    if not all(holds(condition, variables, attributes) for condition in equation.conditions):
        raise IllTypedError("the conditions do not hold")
    return with_numbers(typing, tuple(typing.operators), variables, sizes)

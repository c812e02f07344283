"""Ranks that an operator accepts, cached for all equations."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import lru_cache

from superopt.errors import IllTypedError, RankMismatchError
from superopt.instances.values import likely_values
from superopt.ir.dimensions import symbol
from superopt.ir.numbers import names_of, substituted_number
from superopt.ir.types import ElementType, TensorType
from superopt.ops.base import OPERATORS, operator_from_attributes

_MOST_VALUES = 60
"""Of the values that attribute variables may take together, so many are tried."""

_ABOUT_AXES = frozenset(("axis", "perm", "shape"))
"""Attributes with values that fit some ranks and not others."""


@lru_cache(maxsize=65536)
def fitting_ranks(
    operator: str,
    attributes: tuple[tuple[str, object], ...],
    pattern: tuple[tuple[int, int | None], ...],
    largest_rank: int,
) -> tuple[tuple[int, ...], ...]:
    """The ranks of the inputs that have none yet, under which the operator is not refused for its ranks.

    ``pattern`` gives for each input which input it is (equal ones have equal numbers) and its rank.
    """
    missing = list(dict.fromkeys(index for index, rank in pattern if rank is None))
    choices = itertools.product(range(largest_rank + 1), repeat=len(missing))
    given = dict(attributes)
    implicit = [name for name in OPERATORS[operator].implicit if given.get(name) is None]
    if "shape" in implicit:
        return tuple(choices)
    attributes = (*attributes, *((name, symbol(name)) for name in implicit))
    known = {index: rank for index, rank in pattern if rank is not None}
    order = [index for index, _ in pattern]
    return tuple(
        chosen
        for chosen in choices
        if _ranks_fit(operator, attributes, order, known | dict(zip(missing, chosen, strict=True)))
    )


def _ranks_fit(
    operator: str, attributes: tuple[tuple[str, object], ...], order: list[int], ranks: dict[int, int]
) -> bool:
    inputs = tuple(
        TensorType(ElementType.FLOAT, tuple(symbol(f"i{index}.{axis}") for axis in range(ranks[index])))
        for index in order
    )
    open_: dict[str, Sequence[object]] = {}
    for name, value in attributes:
        for own in names_of(value):
            values = likely_values(name, inputs)
            open_.setdefault(own, values if name in _ABOUT_AXES else values[:1])
    for together in itertools.islice(itertools.product(*open_.values()), _MOST_VALUES):
        chosen = dict(zip(open_, together, strict=True))
        try:
            given = {name: substituted_number(value, chosen) for name, value in attributes}
            operator_from_attributes(operator, given).infer(*inputs)
        except RankMismatchError:
            continue
        except IllTypedError:
            pass
        return True
    return False

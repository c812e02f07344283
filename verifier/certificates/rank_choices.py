"""Ranks that an operator accepts regardless of sizes, cached for all rules."""

from __future__ import annotations

import itertools
from functools import lru_cache

from superopt.errors import IllTypedError, UnfitTypesError
from superopt.ir.dimensions import symbol
from superopt.ir.terms import AttributeTerm
from superopt.ir.types import ElementType, TensorType
from superopt.ops.base import OPERATORS
from superopt.verifier.certificates.dropped_cases import applied


@lru_cache(maxsize=65536)
def fitting_ranks(
    operator: str,
    attributes: tuple[tuple[str, AttributeTerm], ...],
    pattern: tuple[tuple[int, int], ...],
    largest_rank: int,
) -> tuple[tuple[int, ...], ...]:
    """Return the ranks of unranked inputs for which the operator may be well-typed at some sizes.

    ``pattern`` gives, for each input, its index (equal inputs have equal indices) and its rank, or -1 if
    unknown.
    """
    missing = list(dict.fromkeys(index for index, rank in pattern if rank < 0))
    given = dict(attributes)
    implicit = {name: symbol("size") for name in OPERATORS[operator].implicit if name not in given}
    if "shape" in implicit:
        raise IllTypedError(f"{operator} has no rank of its own")
    try:
        ranked = applied(operator, {**given, **implicit})
    except IllTypedError:
        return ()
    fitting: list[tuple[int, ...]] = []
    for ranks in itertools.product(range(largest_rank + 1), repeat=len(missing)):
        known = {index: rank for index, rank in pattern if rank >= 0} | dict(zip(missing, ranks, strict=True))
        types = (
            TensorType(ElementType.FLOAT, tuple(symbol(f"i{index}.{axis}") for axis in range(known[index])))
            for index, _ in pattern
        )
        try:
            ranked.infer(*types)
        except UnfitTypesError:
            continue
        except IllTypedError:
            pass  # decided for the sizes of the case
        fitting.append(ranks)
    return tuple(fitting)


__all__ = ["fitting_ranks"]

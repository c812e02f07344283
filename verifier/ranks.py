"""Which ranks an operator accepts, asked once for all equations."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from functools import lru_cache
from typing import TypeAlias

from superopt.errors import IllTypedError, RankMismatchError
from superopt.ir.dimensions import symbol
from superopt.ir.terms import Application, AttributeTerm, AttributeVariable, Variable
from superopt.ir.types import ElementType, TensorType
from superopt.ops.terms import application
from superopt.rewriting.typing import infer_terms
from superopt.verifier.attributes import plausible_values

RANKS = (2, 4, 3, 1, 0, 5)
MISSING, UNKNOWN = -1, -2
"""In place of a rank: of a variable that has none yet, and of a term whose type depends on its place."""

_TRIES = 8

Attributes: TypeAlias = "tuple[tuple[str, AttributeTerm], ...]"


@lru_cache(maxsize=65536)
def fitting_ranks(
    operator: str, attributes: Attributes, pattern: tuple[tuple[int, int], ...]
) -> tuple[tuple[int, ...], ...]:
    """The ranks of the inputs that have none yet, under which the operator is not refused for its ranks.

    ``pattern`` gives for each input which input it is (equal ones have equal numbers) and its rank.
    """
    missing = list(dict.fromkeys(index for index, rank in pattern if rank == MISSING))
    choices = tuple(itertools.product(RANKS, repeat=len(missing)))
    if any(rank == UNKNOWN for _, rank in pattern):
        return choices
    term = application(operator, dict(attributes), *(Variable(f"i{index}") for index, _ in pattern))
    known = {index: rank for index, rank in pattern if rank != MISSING}
    return tuple(
        chosen for chosen in choices if _ranks_fit(term, known | dict(zip(missing, chosen, strict=True)))
    )


def _ranks_fit(term: Application, ranks: Mapping[int, int]) -> bool:
    types = {
        f"i{index}": TensorType(ElementType.FLOAT, tuple(symbol(f"i{index}.{axis}") for axis in range(rank)))
        for index, rank in ranks.items()
    }
    generator = random.Random(0)
    open_names = [(n, v.name) for n, v in term.attributes if isinstance(v, AttributeVariable)]
    inputs = [types[child.name] for child in term.inputs if isinstance(child, Variable)]
    pools = [plausible_values(attribute, inputs) for attribute, _ in open_names]
    if not all(pools):
        return False
    for _ in range(_TRIES if open_names else 1):
        values = {name: generator.choice(pool) for (_, name), pool in zip(open_names, pools, strict=True)}
        try:
            infer_terms((term,), types, values)
        except RankMismatchError:
            continue
        except IllTypedError:
            pass
        return True
    return False

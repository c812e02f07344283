"""Representative cases for symbolic execution over the reals: the smallest case of each kind.

Cases are of one kind when inputs have equal ranks, attribute variables equal values, and the same sizes are
1: what is left is how large the other sizes are, and a certificate for one of them is one for its kind up to
size. Of kinds that are too many, as many as are asked for are taken at equal distances in their order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import cast

from superopt.instances.program import Case

LARGEST_ELEMENTS = 40
"""Of inputs and outputs: expressions stay small enough to be compared."""


@dataclass
class Representatives:
    """The smallest case of each kind among those shown so far."""

    _smallest: dict[tuple[str, ...], tuple[int, Case]] = field(
        default_factory=dict[tuple[str, ...], tuple[int, Case]]
    )

    def add(self, cases: Iterable[Case]) -> None:
        """Keeps the cases that are smaller than all of their kind."""
        for case in cases:
            elements = [cast("int", type_.elements) for type_ in (*case.types, *case.outputs)]
            if not case.agree or max(elements, default=0) > LARGEST_ELEMENTS:
                continue
            kind = _kind(case)
            known = self._smallest.get(kind)
            if known is None or sum(elements) < known[0]:
                self._smallest[kind] = (sum(elements), case)

    def chosen(self, count: int) -> tuple[Case, ...]:
        """Up to ``count``, of kinds at equal distances; kinds in which some size is not 1 come first."""
        kinds = sorted(self._smallest, key=lambda kind: (kind[0], kind))
        if not count or not kinds:
            return ()
        several = [kind for kind in kinds if kind[0] == "0"] or kinds
        count = min(count, len(several))
        picked = [several[index * len(several) // count] for index in range(count)]
        return tuple(self._smallest[kind][1] for kind in picked)

    def __len__(self) -> int:
        return len(self._smallest)


def _kind(case: Case) -> tuple[str, ...]:
    sizes = ["".join("1" if size == 1 else "n" for size in type_.shape) for type_ in case.types]
    attributes = [f"{name}={value}" for name, value in sorted(case.attributes.items())]
    all_one = "1" if sizes and not any("n" in written for written in sizes) else "0"
    return (all_one, *sizes, *attributes)

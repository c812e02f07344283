"""Number of groups of a convolution, which its sizes may leave open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from superopt.ir.dimensions import Dimension
from superopt.ir.types import TensorType
from superopt.ops.base import Operator
from superopt.ops.sharded.sharding import whole


@dataclass(frozen=True)
class Groups:
    """Sizes that determine the number of groups; ``number`` is the quotient of channels and channels per
    group, None if it is not known to be exact."""

    channels: Dimension
    per_group: Dimension
    outputs: Dimension
    number: Dimension | None

    @property
    def are_open(self) -> bool:
        """Whether the sizes leave open how many groups there are, or whether the outputs are their
        multiple."""
        if self.channels == self.per_group:
            return False
        return self.number is None or _quotient(self.outputs, self.number) is None

    @property
    def one_group(self) -> list[tuple[Dimension, Dimension]]:
        """The equation for which there is one group, if the number is known but symbols decide that."""
        return [] if isinstance(self.number, int | None) else [(self.number, 1)]


def groups_of(operator: Operator, inputs: Sequence[TensorType]) -> Groups | None:
    """Return the groups of a convolution; None for another operator."""
    sizes = operator.grouped(*map(whole, inputs))
    return None if sizes is None else Groups(*sizes, _quotient(sizes[0], sizes[1]))


def _quotient(numerator: Dimension, denominator: Dimension) -> Dimension | None:
    """Return the exact quotient; None if the division is not exact or not known to be."""
    if denominator == 0:
        return None
    quotient = numerator // denominator
    return quotient if quotient * denominator == numerator else None


__all__ = ["Groups", "groups_of"]

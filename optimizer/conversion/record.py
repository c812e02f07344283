"""What was tried beyond rules, for the report: conversions, with the reasons why they are used or not."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Conversion:
    """One conversion on trial: ``kind`` is what was asked for, ``variant`` how it was done (empty where there
    is one way), ``nodes`` the number of nodes in it, ``ratio`` how many times as fast the model is as before
    the conversion (None where that was not timed), ``weight_bytes`` the weights after it."""

    kind: str
    variant: str
    accepted: bool
    why: str
    nodes: int | None = None
    ratio: float | None = None
    interval: tuple[float, float] | None = None
    weight_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Conversions:
    """The conversions that were tried, in order, each on the best model so far: at first ``of`` the search's
    result, or of the original where the search found nothing better."""

    of: Literal["optimized", "original"]
    tried: tuple[Conversion, ...]

    @property
    def accepted(self) -> tuple[Conversion, ...]:
        """Those that the returned model went through, in order."""
        return tuple(one for one in self.tried if one.accepted)

    def to_json(self) -> dict[str, object]:
        """The conversions as JSON values."""
        return asdict(self)

"""Rewritten models that were judged and not returned, as a report holds them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from superopt.optimizer.decision import Verdict


@dataclass(frozen=True, slots=True)
class Rejection:
    """A variant by the rules that it applied, the one that gained most first. ``equal`` is None where outputs
    were not compared."""

    rules: tuple[str, ...]
    equal: bool | None
    why: str

    def to_json(self) -> dict[str, object]:
        """The rejection as JSON values."""
        return asdict(self)


def rejections(verdicts: Sequence[Verdict]) -> tuple[Rejection, ...]:
    """Those of the verdicts that rejected, in the order in which they were given."""
    return tuple(
        Rejection(
            verdict.variant.rules,
            None if verdict.equivalence is None else verdict.equivalence.passed,
            verdict.why,
        )
        for verdict in verdicts
        if not verdict.accepted
    )


__all__ = ["Rejection", "rejections"]

"""Instances: a typing of a rule with attribute values and resolved operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from superopt.equations import format_attribute
from superopt.ir.terms import Equation
from superopt.ir.types import TensorType
from superopt.rewriting.conditions import odd_sizes
from superopt.rewriting.typing import Typing


@dataclass(frozen=True)
class Instance:
    """Types, attribute values and resolved operators of every subterm of both sides."""

    types: Mapping[str, TensorType]
    attributes: Mapping[str, object]
    typing: Typing

    @property
    def symbols(self) -> frozenset[str]:
        """The symbols among the sizes; none when they are numbers."""
        return frozenset[str]().union(*(type_.symbols for type_ in self.typing.types.values()))

    def __str__(self) -> str:
        named = [f"{name}: {type_}" for name, type_ in sorted(self.types.items())]
        named += [f"{name}={_written(value)}" for name, value in sorted(self.attributes.items())]
        return ", ".join(named)


def assumed(goal: Equation, case: Instance) -> frozenset[tuple[object, ...]]:
    """What may be taken for granted of symbols: what the rule's own terms and conditions need."""
    types = case.typing.types
    said = {("odd", size) for size in odd_sizes(goal.conditions, case.types, case.attributes)}
    return frozenset(said).union(
        *(op.unseen(*(types[child] for child in term.inputs)) for term, op in case.typing.operators.items())
    )


def _written(value: object) -> str:
    return format_attribute("", cast("str", value)).removeprefix("=")


__all__ = ["Instance", "assumed"]

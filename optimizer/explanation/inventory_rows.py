"""What two models consist of as rows of a table, from the ``inventory`` of a report in JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

from superopt.optimizer.explanation.amounts import amount

Json: TypeAlias = "Mapping[str, object]"

_QUANTITIES = (
    ("nodes", "nodes", ""),
    ("arithmetic", "flops", "flops"),
    ("parameters", "parameters", ""),
    ("weights", "weight_bytes", "bytes"),
    ("tensors alive at once", "activation_bytes", "bytes"),
    ("file", "file_bytes", "bytes"),
)
"""The names of quantities, their keys in reports, and their units."""


@dataclass(frozen=True, slots=True)
class InventoryRow:
    """An operator or a quantity of both models; ``change`` is empty where it is the same."""

    name: str
    before: str
    after: str
    change: str


def operator_rows(before: Json, after: Json) -> Sequence[InventoryRow]:
    """The numbers of nodes of every ONNX operator, by name."""
    counts = [cast("Mapping[str, int]", model["operators"]) for model in (before, after)]
    pairs = {name: [count.get(name, 0) for count in counts] for name in sorted({*counts[0], *counts[1]})}
    return [
        InventoryRow(name, f"{had:,}", f"{has:,}", f"{has - had:+,}" if had != has else "")
        for name, (had, has) in pairs.items()
    ]


def quantity_rows(before: Json, after: Json) -> Sequence[InventoryRow]:
    """Nodes, arithmetic, parameters, memory and file."""
    return [
        InventoryRow(
            name, _written(before, key, unit), _written(after, key, unit), _change(before, after, key)
        )
        for name, key, unit in _QUANTITIES
    ]


def uncounted_note(model: Json) -> str:
    """Of how many nodes the arithmetic is not known; empty if of none."""
    nodes, uncounted = (cast("int", model[key]) for key in ("nodes", "uncounted"))
    why = "which are in bodies or have no operator in the algebra"
    return f"arithmetic without that of {uncounted:,} of {nodes:,} nodes, {why}" if uncounted else ""


def _written(model: Json, key: str, unit: str) -> str:
    value = cast("int", model[key])
    return amount(value, unit).replace("\N{NO-BREAK SPACE}", " ") if unit else f"{value:,}"


def _change(before: Json, after: Json, key: str) -> str:
    had, has = cast("int", before[key]), cast("int", after[key])
    if had == has:
        return ""
    if key == "flops" and before["uncounted"] != after["uncounted"]:
        return "n/a"
    return f"{100 * (has - had) / had:+.1f} %" if had else "new"

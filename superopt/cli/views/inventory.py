"""Text output of what a model consists of: its operators, and those of the optimised one beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias, cast

from superopt.cli.output import Output
from superopt.optimizer.explanation.inventory_rows import (
    InventoryRow,
    operator_rows,
    quantity_rows,
    uncounted_note,
)

Json: TypeAlias = "Mapping[str, object]"


def print_changes(report: Json, output: Output) -> None:
    """The operators whose number of nodes changed, and all quantities, of both models of a report; where the
    original is returned, its quantities alone; nothing where the report has none."""
    pair = _pair(report)
    if pair is None:
        return
    before, after = pair
    output.line()
    if report["returned"] == "original":
        _columns([(row.name, row.after) for row in quantity_rows(after, after)], output)
        _note(after, output)
    else:
        _print_pair([row for row in operator_rows(before, after) if row.change], before, after, output)


def print_table(report: Json, output: Output) -> None:
    """As ``print_changes``, with the operators whose number is the same."""
    pair = _pair(report)
    if pair is None:
        return
    before, after = pair
    output.line()
    if report["returned"] == "original":
        print_one(after, output)
    else:
        _print_pair(operator_rows(before, after), before, after, output)


def print_one(inventory: object, output: Output) -> None:
    """The operators and quantities of one model."""
    model = _object(inventory)
    rows = [(row.name, row.after) for row in operator_rows(model, model)]
    _columns([("ONNX operator", "nodes"), *rows], output)
    output.line()
    _columns([(row.name, row.after) for row in quantity_rows(model, model)], output)
    _note(model, output)


def _print_pair(operators: Sequence[InventoryRow], before: Json, after: Json, output: Output) -> None:
    rows = [*operators, *quantity_rows(before, after)]
    cells = [(row.name, row.before, row.after, row.change) for row in rows]
    _columns([("", "before", "after", "change"), *cells], output)
    _note(after, output)


def _columns(rows: Sequence[Sequence[str]], output: Output) -> None:
    """Aligned columns, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *cells in rows:
        numbers = (f"{cell:>{width}}" for cell, width in zip(cells, widths[1:], strict=True))
        output.line("  ".join((f"{name:<{widths[0]}}", *numbers)).rstrip())


def _note(model: Json, output: Output) -> None:
    note = uncounted_note(model)
    if note:
        output.line(note)


def _pair(report: Json) -> tuple[Json, Json] | None:
    if report.get("inventory") is None:
        return None
    section = _object(report["inventory"])
    return _object(section["before"]), _object(section["after"])


def _object(value: object) -> Json:
    return cast("Json", value)

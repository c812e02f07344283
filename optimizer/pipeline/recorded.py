"""The steps of a recorded trace, read from a report for ``replay``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from superopt.errors import InvalidFileError
from superopt.ir.graph import NodeId
from superopt.optimizer.pipeline.report import SCHEMA


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """A step read from a report, for ``replay``."""

    rule: str
    backwards: bool
    site: tuple[NodeId, ...]
    choice: int


def recorded_trace(report: Mapping[str, object]) -> tuple[RecordedStep, ...]:
    """The applied rules in a report's JSON; raises InvalidFileError for JSON that is not a report of this
    schema. Canonicalisation steps come first and are left out: every optimization starts with all of them."""
    if report.get("schema") != SCHEMA:
        raise InvalidFileError(f"report: expected schema {SCHEMA}, got {report.get('schema')!r}")
    steps = report.get("trace")
    if not isinstance(steps, list):
        raise InvalidFileError("report: expected a list as trace")
    numbered = enumerate(cast("list[object]", steps), start=1)
    return tuple(_recorded(number, step) for number, step in numbered if not _is_canonical(step))


def _is_canonical(step: object) -> bool:
    return isinstance(step, dict) and cast("dict[str, object]", step).get("kind") in ("canonicalise", "fold")


def _recorded(number: int, step: object) -> RecordedStep:
    values: dict[str, object] = cast("dict[str, object]", step) if isinstance(step, dict) else {}
    rule, site = values.get("rule"), values.get("site")
    backwards, choice = values.get("backwards", False), values.get("choice", 0)
    sound = (
        values.get("kind") == "rule"
        and isinstance(rule, str)
        and isinstance(site, list)
        and all(isinstance(node, int) for node in cast("list[object]", site))
        and isinstance(backwards, bool)
        and isinstance(choice, int)
        and choice >= 0
    )
    if not sound:
        raise InvalidFileError(f"report: step {number} of the trace is not a rewriting step: {step!r}")
    nodes = tuple(NodeId(node) for node in cast("Sequence[int]", site))
    return RecordedStep(cast("str", rule), cast("bool", backwards), nodes, cast("int", choice))

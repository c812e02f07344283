"""What is read of a report, for ``replay`` and for given plans: the steps of its trace, its model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from superopt.errors import InvalidFileError
from superopt.ir.graph import NodeId
from superopt.onnx_io import LiftedModel
from superopt.optimizer.pipeline.reporting.report import SCHEMA, section_of


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


def require_same_model(given: Mapping[str, object], lifted: LiftedModel) -> None:
    """Raises InvalidFileError for the report of another model; a plan without a report is accepted for
    any."""
    own = lifted.source.sha256
    recorded = section_of(given, "model").get("sha256") if "model" in given else own
    if recorded != own:
        raise InvalidFileError(
            f"plan: the report is of another model: expected sha256 {own}, that of "
            f"{Path(lifted.source.name).name}, got {recorded}; pass only its section 'parallel' to use its "
            "plan on this model"
        )

"""Write the training step of a strategy that delays or compresses gradients, which trains something else."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from superopt.errors import InvalidOptionError
from superopt.journeys.planning.lifted_steps import LiftedStep
from superopt.onnx_io import LoweredModel, ModelSource
from superopt.onnx_io.lowering.extending import Extension, extend
from superopt.optimizer.parallel.simulator import Simulation
from superopt.optimizer.parallel.strategies.applying import ChangedStep, GradientSums
from superopt.optimizer.parallel.strategies.auto import simulated
from superopt.optimizer.parallel.strategies.inexact import exact
from superopt.optimizer.parallel.strategies.model import Strategy
from superopt.optimizer.parallel.topology import Cluster
from superopt.optimizer.training.compared_losses import LossComparison, compare_losses
from superopt.optimizer.training.description import replace_description
from superopt.optimizer.training.running import Step
from superopt.optimizer.training.synchronisation import GradientChange
from superopt.optimizer.training.trial_batches import batches_of

if TYPE_CHECKING:
    import onnx

PROPERTY = "superopt.synchronisation"
"""The key of the metadata property of such a step."""


@dataclass(frozen=True)
class AppliedStrategy:
    """The step that a strategy trains: as a model, with what was changed, the losses of both steps, and the
    simulations of its plan and of that of the given step without delays and compression."""

    model: LoweredModel
    changes: tuple[GradientChange, ...]
    losses: LossComparison
    simulation: Simulation
    before: Simulation

    def sentence(self) -> str:
        """What was changed, and by how much losses differ, in a line."""
        losses = self.losses
        return (
            f"{', '.join(_counted(self.changes))}; not equal to the given step: {len(losses.exact)} losses "
            f"differ by {losses.error:.2g} of their mean (the last one {losses.other[-1]:.4g}, exactly "
            f"{losses.exact[-1]:.4g})"
        )

    def document(self) -> Mapping[str, object]:
        """The same as a JSON object."""
        losses = self.losses
        return {
            "changes": [_document(one) for one in self.changes],
            "equal": False,
            "losses": {
                "steps": len(losses.exact),
                "error": losses.error,
                "last": {"given": losses.exact[-1], "applied": losses.other[-1]},
            },
            "predicted_us": {"given": self.before.microseconds, "applied": self.simulation.microseconds},
            "communication_bytes": {
                "given": self.before.communication_bytes,
                "applied": self.simulation.communication_bytes,
            },
            "peak_bytes": {
                "given": max(self.before.memory_bytes),
                "applied": max(self.simulation.memory_bytes),
            },
        }


def apply_strategy(
    model: ModelSource, strategy: Strategy, cluster: Cluster, samples: Path | None, tolerance: float
) -> AppliedStrategy:
    """The step that a strategy trains. Raises InvalidOptionError for a strategy that fits neither step nor
    cluster, that trains as one device does, or whose losses differ from those of the step by more than the
    tolerance; InvalidFileError for samples that do not fit."""
    step = LiftedStep.of(model)
    planner = step.planner(cluster)
    changes = GradientSums(planner).changes(strategy)
    if not changes:
        raise InvalidOptionError(
            "strategy: it trains as one device does, with no staleness and no compressor: nothing to apply"
        )
    changed = ChangedStep.of(step.lifted.graph, step.layout, changes)
    written = write_changed(step, changed, changes)
    given, other = Step(model, threads=1), Step(written.to_bytes(), threads=1)
    batches = batches_of(model, samples, "strategy", "give samples with --data SAMPLES.npz")
    losses = compare_losses(given, other, batches)
    if losses.error > tolerance:
        if not math.isfinite(losses.error):
            raise InvalidOptionError(
                "strategy: the losses of the step that it trains are not finite: gradients are delayed too "
                "long, or exceed 65,504, the largest number in half precision"
            )
        raise InvalidOptionError(
            f"tolerance: expected at least {losses.error:.2g}, by which {len(losses.exact)} losses differ "
            f"from those of the given step as a share of their mean, got {tolerance:g}"
        )
    before = simulated(planner.planned(exact(strategy)), planner)
    other_planner = changed.planner(planner)
    after = simulated(other_planner.planned(strategy), other_planner)
    return AppliedStrategy(written, changes, losses, after, before)


def write_changed(step: LiftedStep, changed: ChangedStep, changes: Sequence[GradientChange]) -> LoweredModel:
    """The changed step as a model."""
    extension = Extension(
        dict(zip(changed.layout.outputs, changed.graph.outputs, strict=True)),
        initial={state.input: state.initial for state in changed.states},
    )
    model = extend(step.lifted, changed.graph, extension)
    replace_description(model.proto, changed.layout.description)
    entries = [entry for entry in model.proto.metadata_props if entry.key == PROPERTY]
    content = {"format": 1, "changes": [*_changes_in(entries), *map(_document, changes)]}
    for entry in entries:
        model.proto.metadata_props.remove(entry)
    model.proto.metadata_props.add(key=PROPERTY, value=json.dumps(content))
    return model


def _changes_in(entries: Sequence[onnx.StringStringEntryProto]) -> list[object]:
    """The changes that metadata lists; none where it is malformed."""
    found: list[object] = []
    for entry in entries:
        try:
            content = cast("object", json.loads(entry.value))
        except ValueError:
            continue
        listed = cast("Mapping[str, object]", content).get("changes") if isinstance(content, dict) else None
        found.extend(cast("list[object]", listed) if isinstance(listed, list) else ())
    return found


def _counted(changes: Sequence[GradientChange]) -> list[str]:
    """Each kind of change with the number of gradients."""
    kinds = dict.fromkeys(map(_kind, changes))
    return [
        f"{count} gradient{'' if count == 1 else 's'} {kind}"
        for kind in kinds
        for count in (sum(_kind(one) == kind for one in changes),)
    ]


def _kind(change: GradientChange) -> str:
    if change.compressed:
        return f"in half precision{' with feedback' if change.feedback else ''}"
    return f"applied {change.delay} step{'' if change.delay == 1 else 's'} later"


def _document(change: GradientChange) -> dict[str, object]:
    return {
        "parameter": change.parameter,
        "staleness": change.delay,
        "compressed": change.compressed,
        "feedback": change.feedback,
    }


__all__ = ["PROPERTY", "AppliedStrategy", "apply_strategy", "write_changed"]

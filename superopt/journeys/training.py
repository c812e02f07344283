"""Build a training step from a model and the adjoint statements of the shipped axioms."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from superopt.axioms.loader import load_axioms
from superopt.errors import IllTypedError, InvalidModelError, InvalidOptionError, UnsupportedError
from superopt.onnx_io import ModelSource
from superopt.optimizer.training.description import Role
from superopt.optimizer.training.step import (
    BuiltStep,
    StepSettings,
    build_step,
)


@dataclass(frozen=True)
class StepGraph:
    """A training step, and the seconds that it took to build."""

    step: BuiltStep
    seconds: float

    def save(self, path: str | Path) -> None:
        """Writes the step, with external data above 1 GiB; raises InvalidOptionError if that is not
        possible."""
        self.step.model.save(path)

    def document(self) -> Mapping[str, object]:
        """What was built, as the section ``training`` of a report."""
        description = self.step.description
        return {
            "optimizer": description.optimizer,
            "data": list(description.data),
            "states": [
                {
                    "name": state.name,
                    "role": str(state.role),
                    "of": state.of,
                    "bytes": self.step.state_bytes[state.input],
                }
                for state in description.states
            ],
            "adjoints": [
                {"rule": name, "count": count} for name, count in sorted(self.step.adjoints.items())
            ],
            "nodes": {"forward": self.step.forward_nodes, "step": self.step.model.node_count},
            "not_trained": list(self.step.unreached),
            "precision": None if self.step.precision is None else self.step.precision.document(),
            "notes": list(self.step.notes),
            "seconds": self.seconds,
        }

    def parameters(self) -> tuple[str, ...]:
        """The names of the trained parameters."""
        return tuple(state.name for state in self.step.description.with_role(Role.PARAMETER))


def train_graph(model: ModelSource, settings: StepSettings | None = None) -> StepGraph:
    """The training step of an inference model. Raises InvalidModelError for a model that cannot be trained,
    with the node that has no gradient, and InvalidOptionError for settings that do not fit it."""
    if settings is not None and not isinstance(cast("object", settings), StepSettings):
        raise InvalidOptionError(f"settings: expected StepSettings, got {type(settings).__name__}")
    start = time.monotonic()
    try:
        step = build_step(model, settings or StepSettings(), load_axioms().adjoints)
        step.require_runnable(str(model) if isinstance(model, str | Path) else "the model")
    except (IllTypedError, UnsupportedError) as error:
        raise InvalidModelError(str(error)) from error
    return StepGraph(step, time.monotonic() - start)

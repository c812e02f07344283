"""Command superopt train-graph: writes the training step of a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from superopt.cli.job_options import GivenOptions, with_options
from superopt.cli.output import (
    JsonOption,
    ModelArgument,
    NoDatabaseOption,
    Output,
    OutputOption,
    several,
    shown,
)
from superopt.files import require_output
from superopt.step_options import STEP_OPTIONS, StepSettings

if TYPE_CHECKING:
    from superopt.journeys.training import StepGraph


def register(app: typer.Typer) -> None:
    """Adds the command."""
    command = with_options(tuple(STEP_OPTIONS.values()), write_step)
    app.command("train-graph")(command)


def write_step(
    model: ModelArgument,
    out: OutputOption,
    given: GivenOptions,
    database: NoDatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the training step of a model: forward pass, loss, gradients and updates as plain ONNX.

    `superopt train` runs the step on samples.
    """
    from superopt.journeys.training import train_graph

    del database
    output = Output.beside(as_json, out)
    require_output(out, {"inference model": model})
    settings = StepSettings.from_json(given)
    built = train_graph(model, settings)
    built.save(out)
    output.document({"step": str(out), **built.document()})
    output.pairs(_summary(built, out))


def _summary(built: StepGraph, out: Path) -> Mapping[str, object]:
    from superopt.optimizer.training.description import Role

    step = built.step
    description = step.description
    names = {
        Role.MOMENT: "moment",
        Role.SECOND_MOMENT: "second moment",
        Role.STATISTIC: "running statistic",
        Role.ACCUMULATOR: "accumulator",
        Role.SCALE: "loss scale",
    }
    roles = Counter(state.role for state in description.states)
    others = ", ".join(several(roles[role], name) for role, name in names.items() if roles[role])
    nodes = f"{step.model.node_count} nodes, {step.forward_nodes} of them the forward pass"
    lines: dict[str, object] = {
        "step": f"{shown(out)}: {nodes}, built in {built.seconds:.1f} s",
        "trained": f"{several(roles[Role.PARAMETER], 'parameter')} by {description.optimizer}"
        + (f"; {others}" if others else ""),
        "data": ", ".join(description.data),
        "learning rate": _rate(built),
    }
    if step.precision is not None:
        lines["precision"] = step.precision.sentence()
    if step.unreached:
        lines["not trained"] = (
            f"{', '.join(step.unreached)}: the loss does not depend on them, or only in steps, as by integers"
        )
    if step.notes:
        lines["notes"] = list(step.notes)
    return lines


def _rate(built: StepGraph) -> str:
    from superopt.optimizer.training.description import ConstantRate, RateInput

    match built.step.description.learning_rate:
        case RateInput(input=name):
            return f"the input {name}"
        case ConstantRate(constant=rate):
            return f"{rate:g}"
        case scheduled:
            return scheduled.schedule

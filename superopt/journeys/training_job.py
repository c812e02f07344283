"""The training step that an optimization with objective training optimises in place of the model."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from superopt.axioms.loader import load_axioms
from superopt.errors import InvalidFileError, InvalidOptionError
from superopt.journeys.training import train_graph
from superopt.onnx_io import SourceModel, load_model
from superopt.optimizer.pipeline.reporting.report import section_of
from superopt.optimizer.pipeline.runnable import why_refused
from superopt.optimizer.training.metadata import is_step
from superopt.optimizer.training.precision.stored import with_precision
from superopt.options import TRAINING, Options
from superopt.step_options import PRECISION_OPTIONS, StepSettings

SUFFIX = ".step.onnx"


@dataclass(frozen=True)
class JobStep:
    """A training step in a file, and the section ``training`` of the report; None where the model was a step
    already."""

    path: Path
    section: Mapping[str, object] | None


def built_step(model: Path, options: Options, directory: Path, called: str = "") -> JobStep:
    """The training step of a model, in a file of the directory; a model that is a step is taken as it is, or
    with another precision of its nodes. Raises InvalidModelError for a model that cannot be trained, and
    InvalidOptionError. Messages name what a temporary file is ``called``."""
    source = load_model(model, why_refused, called)
    if is_step(source.proto):
        if options.training and PRECISION_OPTIONS.keys() >= options.training.keys():
            return _with_precision(model, source, options, directory)
        if options.training is not None:
            raise InvalidOptionError(
                f"training: expected no settings but those of precision for {model.name}, which is a "
                f"training step already, got {dict(options.training)}"
            )
        return JobStep(model, None)
    if options.objective != TRAINING:
        raise InvalidOptionError(
            f"{next(iter(options.training or {}))}: expected a training step, or objective {TRAINING}, which "
            f"builds one, got {model.name}"
        )
    changed = [flag for flag, value in _changes(options).items() if value]
    if changed:
        raise InvalidOptionError(
            f"{changed[0]}: expected it without objective training, which builds the step of "
            "the model as it is; write the changed model first, with search none"
        )
    graph = train_graph(model, settings_of(options))
    path = directory / f"{model.stem}{SUFFIX}"
    graph.save(path)
    return JobStep(path, {"model": {"name": model.name, "sha256": source.sha256}, **graph.document()})


def _with_precision(model: Path, source: SourceModel, options: Options, directory: Path) -> JobStep:
    settings = StepSettings.from_json(options.training or {}).precision
    if not settings.is_mixed:
        return JobStep(model, None)
    step, outcome = with_precision(source, settings, load_axioms().adjoints)
    path = directory / f"{model.stem}{SUFFIX}"
    step.save(path)
    section = {"model": {"name": model.name, "sha256": source.sha256}, "precision": outcome.document()}
    return JobStep(path, section)


def _changes(options: Options) -> Mapping[str, object]:
    """The options that change a model before it is optimised, which a step cannot be."""
    return {"opset": options.opset, "cut_input": options.cut_inputs, "cut_output": options.cut_outputs}


def settings_of(options: Options) -> StepSettings:
    """The settings of the step; sizes of open dimensions are fixed before it is built."""
    settings = StepSettings.from_json(options.training or {})
    if isinstance(options.freeze, str):
        return settings
    return replace(settings, model=replace(settings.model, freeze=options.freeze))


def recorded_step(model: Path, report: Mapping[str, object], directory: Path) -> Path:
    """The step that a report is about, built again from the model; the model itself where the report is about
    that. Raises InvalidFileError for a report of another model."""
    if not isinstance(report.get("training"), dict):
        return model
    expected = section_of(section_of(report, "training"), "model").get("sha256")
    with model.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != expected:
            return model
    recorded = section_of(report, "options")
    training, freeze = recorded.get("training"), recorded.get("freeze")
    if not isinstance(training, dict | None) or not isinstance(freeze, dict | str):
        raise InvalidFileError(
            f"report: expected options.training and options.freeze, got {training!r}, {freeze!r}"
        )
    options = Options(
        objective=TRAINING,
        training=cast("Mapping[str, object] | None", training),
        freeze=cast("Mapping[str, int]", freeze),
    )
    return built_step(model, options, directory).path

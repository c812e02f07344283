"""The model that a request is about: functions inlined, operator set converted, cut and frozen as asked."""

from __future__ import annotations

import time
from collections.abc import Mapping

from superopt.errors import InvalidFileError, InvalidModelError, InvalidOptionError
from superopt.journeys.changes import freezing
from superopt.journeys.comparing import compared_sources
from superopt.onnx_io.changes.adapting import at_opset, without_functions
from superopt.onnx_io.changes.cutting import cut
from superopt.onnx_io.files.source import SourceModel
from superopt.optimizer.pipeline.reporting.report import section_of
from superopt.options import Options

_CHECKING_SHARE = 0.2
"""Share of the budget after which a converted model is compared with the given one on no further sample."""


def as_requested(source: SourceModel, options: Options) -> SourceModel:
    """The model changed as the options say; the same model where they do not. One with other operators is
    compared with the given one. Raises InvalidOptionError, and InvalidModelError for a model that cannot be
    converted, or whose outputs then differ."""
    converted = _converted(source, options)
    if converted is not source:
        deadline = time.monotonic() + _CHECKING_SHARE * options.budget
        verdict = compared_sources(
            source,
            converted,
            samples=options.samples,
            seed=options.seed,
            tolerance=options.tolerance,
            inputs=options.inputs,
            dims=options.dims,
            deadline=deadline,
        )
        if not verdict.passed:
            done = " and ".join(converted.adapted)
            raise InvalidModelError(
                f"{source.name}: the model after {done} does not compute what the given one does: "
                f"{verdict.why}"
            )
    return freezing.as_requested(_cut(converted, options), options)


def as_recorded(source: SourceModel, report: Mapping[str, object]) -> SourceModel:
    """The model changed as it was for a report. Raises InvalidFileError where the report does not fit it."""
    if not section_of(report, "model").get("adapted"):
        return freezing.as_recorded(source, report)
    recorded = section_of(report, "options")
    known = {name: recorded[name] for name in _ADAPTING if name in recorded}
    try:
        options = Options.from_json({_ADAPTING[name]: value for name, value in known.items()})
        changed = _cut(_converted(source, options), options)
    except (InvalidOptionError, InvalidModelError) as error:
        raise InvalidFileError(f"report: {error}") from None
    return freezing.as_recorded(changed, report)


_ADAPTING = {
    "opset": "opset",
    "inline_functions": "inline_functions",
    "cut_inputs": "cut_input",
    "cut_outputs": "cut_output",
}
"""The options that change the model, by their names in reports: their names in requests."""


def _converted(source: SourceModel, options: Options) -> SourceModel:
    if options.inline_functions:
        source = without_functions(source)
    return source if options.opset is None else at_opset(source, options.opset)


def _cut(source: SourceModel, options: Options) -> SourceModel:
    if not options.cut_inputs and not options.cut_outputs:
        return source
    return cut(source, options.cut_inputs, options.cut_outputs)


__all__ = ["as_recorded", "as_requested"]

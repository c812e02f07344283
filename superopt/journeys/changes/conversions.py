"""Convert the model that a search returned, as asked for, where that pays: to float16, to operators of ONNX
Runtime's own domain."""

from __future__ import annotations

import logging
import math
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from superopt import optimizer
from superopt.errors import InvalidFileError, InvalidModelError, InvalidOptionError
from superopt.onnx_io import LiftedModel, LoweredModel, lift, load_model
from superopt.optimizer.check import (
    Comparison,
    Equivalence,
    Reference,
    Sampling,
    check_equivalence,
    compare_latency,
    given_inputs,
    plan_inputs,
)
from superopt.optimizer.conversion import FLOAT16, FUSED, Candidate, Conversion, Conversions, candidates
from superopt.optimizer.cost import Origin, Sizes, physical_cores
from superopt.optimizer.cost.runtime.session import Array, LoadedModel, ModelFile, RuntimeRefusedError
from superopt.optimizer.pipeline.reporting.inventory import inventory_of
from superopt.optimizer.pipeline.reporting.report import (
    EquivalenceSummary,
    LatencySummary,
    Report,
    section_of,
)
from superopt.optimizer.pipeline.runnable import runnable_original, why_refused
from superopt.options import Options

_LOG = logging.getLogger(__name__)

_TOLERANCES = {FLOAT16: 1e-2, FUSED: None}
"""Allowed errors relative to the size of each output; None for that of the element type."""

_MOST_VARIANTS = 3
"""So many variants of one conversion are judged, those with the fewest nodes first."""

_SHARE = 0.3
"""Share of the budget for each kind of conversion."""

_SECONDS_PER_BYTE = 4e-8
"""Time of converting a model once."""

_CONVERTING = 0.4
"""Share of the remaining time for making candidates."""

_TIMING = 0.4
"""Share of the remaining time for timing one candidate."""


def kinds_of(options: Options) -> tuple[str, ...]:
    """The conversions that the options ask for. Raises InvalidOptionError for one with a cluster."""
    if options.fp16 and options.cluster is not None:
        raise InvalidOptionError("fp16: expected no cluster: its plans keep the element types of the model")
    asked = {FUSED: options.runtime == "onnxruntime", FLOAT16: options.fp16}
    return tuple(kind for kind, is_asked in asked.items() if is_asked)


def without_conversions(options: Options) -> Options:
    """The options of the search, with the part of the budget that conversions leave to it."""
    return replace(options, budget=options.budget * (1 - _SHARE * len(kinds_of(options))))


def converted(
    found: optimizer.Result, lifted: LiftedModel, options: Options, started: float
) -> optimizer.Result:
    """The result of a search with its model converted as the options ask, where outputs stay equal within the
    tolerance and the model gets faster; for float16 with the objective memory, smaller. ``lifted`` is the
    original. The budget counts from ``started`` (monotonic clock)."""
    kinds = kinds_of(options)
    if not kinds:
        return found
    report = replace(found.report, options={**found.report.options, "budget": options.budget})
    accepted, tried = _Accepted(found.model), list[Conversion]()
    try:
        with tempfile.TemporaryDirectory(prefix="superopt-") as directory:
            file = runnable_original(lifted, Path(directory))
            trial = _Trial.of(file, lifted, report, options, started + options.budget)
            for kind in kinds:
                for conversion, better in trial.tried(kind, accepted):
                    tried.append(conversion)
                    accepted = better
            report = trial.described(report, accepted)
    except (RuntimeRefusedError, InvalidModelError) as error:
        tried.append(Conversion(kinds[-1], "", accepted=False, why=f"not tried: {error}"))
    conversions = Conversions(found.report.returned, tuple(tried))
    return replace(found, model=accepted.model, report=replace(report, conversions=conversions))


def recorded_tolerance(report: Mapping[str, object]) -> float | None:
    """The error that a report allows of its model: that of float16 where it was converted to that, else None
    for that of the element types."""
    return max((_TOLERANCES.get(kind) or 0.0 for kind, _ in _recorded(report)), default=0.0) or None


def converted_as_recorded(model: LoweredModel, report: Mapping[str, object]) -> LoweredModel:
    """The model converted as it was for a report. Raises InvalidFileError where it cannot be."""
    for kind, variant in _recorded(report):
        found = next(_candidates(kind, model, variant), None) if kind in _TOLERANCES else None
        if found is None:
            raise InvalidFileError(f"report: the model cannot be converted to {kind} {variant}".rstrip())
        model = _lowered(found, model)
    return model


def _recorded(report: Mapping[str, object]) -> list[tuple[str, str]]:
    """The kinds and variants of the conversions that were accepted."""
    tried = section_of(report, "conversions").get("tried") or ()
    entries = cast("Sequence[object]", tried) if isinstance(tried, Sequence) else (None,)
    if not all(isinstance(entry, Mapping) for entry in entries):
        raise InvalidFileError(f"report: conversions.tried: expected a list of objects, got {tried!r:.60}")
    conversions = cast("Sequence[Mapping[str, object]]", entries)
    return [
        (str(one.get("kind")), str(one.get("variant") or "")) for one in conversions if one.get("accepted")
    ]


def is_converted(report: Mapping[str, object]) -> bool:
    """Whether the model of a report was converted after the search."""
    return bool(_recorded(report))


@dataclass(frozen=True, slots=True)
class _Accepted:
    """The best model so far; without an ``equivalence`` it is that of the search."""

    model: LoweredModel
    equivalence: Equivalence | None = None


@dataclass(frozen=True, eq=False)
class _Trial:
    """Conversions of one model under trial: the original's ``file``, ``references`` with samples of its
    outputs by the kind of conversion, whose tolerances differ, and the ``feeds`` for timing."""

    file: ModelFile
    references: Mapping[str, Reference]
    feeds: Mapping[str, Array]
    options: Options
    deadline: float

    @staticmethod
    def of(file: ModelFile, lifted: LiftedModel, report: Report, options: Options, deadline: float) -> _Trial:
        """Opens the original, and runs it on samples. Raises RuntimeRefusedError where it does not run."""
        loaded = LoadedModel(file, options.threads or physical_cores())
        plan = plan_inputs(lifted, loaded.inputs, report.sizes.priced or options.dims)
        given = given_inputs(lifted, plan, options.inputs)
        sampling = Sampling(options.samples, options.seed, None, given, deadline)
        references = {
            kind: Reference(loaded, plan, replace(sampling, tolerance=allowed), lifted.source)
            for kind in kinds_of(options)
            for allowed in (options.tolerance or _TOLERANCES[kind],)
        }
        first = next(iter(references.values())).first()
        if first is None:
            raise RuntimeRefusedError(plan.refusal)
        return _Trial(file, references, first.feeds, options, deadline)

    def tried(self, kind: str, accepted: _Accepted) -> Iterator[tuple[Conversion, _Accepted]]:
        """The conversions of a kind, each with the best model after it, until one is accepted."""
        if self.options.target != "cpu" and not self._is_for_size(kind):
            why = f"not tried: it would be timed on this machine, and the target is {self.options.target}"
            yield Conversion(kind, "", accepted=False, why=why), accepted
            return
        seconds = 1 + _SECONDS_PER_BYTE * accepted.model.weight_bytes
        if time.monotonic() + 2 * seconds > self.deadline:
            why = f"not tried: it may take {2 * seconds:.0f} s, and the budget has fewer left"
            yield Conversion(kind, "", accepted=False, why=why), accepted
            return
        number = 0
        for number, candidate in enumerate(self._candidates(kind, accepted), start=1):
            conversion, better = self._judged(candidate, accepted)
            yield conversion, better
            if conversion.accepted or number == _MOST_VARIANTS:
                return
        if not number:
            why = (
                "ONNX Runtime's tool found nothing to fuse" if kind == FUSED else "it could not be converted"
            )
            yield Conversion(kind, "", accepted=False, why=why), accepted

    def _candidates(self, kind: str, accepted: _Accepted) -> Iterator[Candidate]:
        now = time.monotonic()
        return _candidates(kind, accepted.model, ends=now + _CONVERTING * (self.deadline - now))

    def _judged(self, candidate: Candidate, accepted: _Accepted) -> tuple[Conversion, _Accepted]:
        """The verdict on a candidate: equality first."""
        refused = Conversion(candidate.kind, candidate.variant, accepted=False, why="", nodes=candidate.nodes)
        try:
            loaded = LoadedModel(candidate.content, self.options.threads or physical_cores())
            equivalence = check_equivalence(self.references[candidate.kind], loaded, closes=True)
            if not equivalence.passed:
                return replace(refused, why=f"not equal: {equivalence.why}"), accepted
            model = _lowered(candidate, accepted.model)
            refused = replace(refused, weight_bytes=model.weight_bytes)
            if self._is_for_size(candidate.kind):
                better, why = model.weight_bytes < accepted.model.weight_bytes, "equal, and smaller"
                judged = replace(refused, why=why if better else "equal, but not smaller")
            elif self._left <= 0:
                return replace(refused, why="equal, but no time was left to time it"), accepted
            else:
                compared = self._timed(_bytes(accepted.model), candidate.content)
                better = compared.low > 1
                interval = round(compared.low, 4), round(compared.high, 4)
                judged = replace(
                    refused, why=_speed(compared), ratio=round(compared.ratio, 4), interval=interval
                )
        except (RuntimeRefusedError, InvalidModelError) as error:
            return replace(refused, why=f"it does not run: {error}"), accepted
        if not better:
            return judged, accepted
        return replace(judged, accepted=True), _Accepted(model, equivalence)

    def described(self, report: Report, accepted: _Accepted) -> Report:
        """The report about the accepted model, timed against the original; as it is where none was."""
        if accepted.equivalence is None:
            return report
        compared = None if self._left <= 0 else self._timed(self.file, _bytes(accepted.model))
        why = "converted: equal within the tolerance, and smaller"
        if compared is not None and self.options.objective != "memory":
            why = f"converted: {_speed(compared).removesuffix('without')}the original"
        threads, inventory = self.options.threads or physical_cores(), report.inventory
        if inventory is not None:
            lifted = lift(accepted.model.source)
            sizes = Sizes(lifted.graph, report.sizes.priced, Origin(lifted))
            inventory = replace(inventory, after=inventory_of(accepted.model, lifted.graph, sizes))
        return replace(
            report,
            model=replace(report.model, nodes_after=accepted.model.node_count),
            measured=None if compared is None else LatencySummary.of(compared, threads),
            equivalence=EquivalenceSummary.of(accepted.equivalence),
            inventory=inventory,
            returned="optimized",
            why=f"{report.why}; then {why}" if report.returned == "optimized" else why,
        )

    @property
    def _left(self) -> float:
        """Seconds for timing one candidate."""
        return _TIMING * (self.deadline - time.monotonic())

    def _is_for_size(self, kind: str) -> bool:
        return kind == FLOAT16 and self.options.objective == "memory"

    def _timed(self, before: ModelFile, after: ModelFile) -> Comparison:
        threads = self.options.threads or physical_cores()
        return compare_latency(before, after, self.feeds, threads=threads, seconds=self._left)


def _speed(compared: Comparison) -> str:
    """The reason that a measurement gives for or against a conversion."""
    verdict = "equal, and" if compared.low > 1 else "equal, but not certainly faster:"
    measured = f"{compared.ratio:.3f} ({compared.low:.3f} to {compared.high:.3f})"
    return f"{verdict} measured {measured} times as fast as without"


def _candidates(
    kind: str, model: LoweredModel, variant: str = "", ends: float = math.inf
) -> Iterator[Candidate]:
    """The converted forms of a model; none where the tool fails, which is logged."""
    with tempfile.TemporaryDirectory(prefix="superopt-") as directory:
        path = Path(directory) / "model.onnx"
        path.write_bytes(_bytes(model))
        try:
            found = candidates(kind, path, variant, ends)
        except Exception:  # noqa: BLE001 - the tools fail in many ways; the model stays as it is
            _LOG.warning("converting %s to %s failed", model.source.name, kind, exc_info=True)
            return
    yield from found


def _bytes(model: LoweredModel) -> bytes:
    """The model as one file, wherever its weights are. Raises InvalidModelError for one over 2 GB."""
    model.require_one_file()
    return model.to_bytes()


def _lowered(candidate: Candidate, model: LoweredModel) -> LoweredModel:
    source = replace(load_model(candidate.content, why_refused), name=model.source.name)
    return replace(LoweredModel.of_source(source, {}), inline_limit=model.inline_limit)


__all__ = ["converted", "converted_as_recorded", "is_converted", "kinds_of", "without_conversions"]

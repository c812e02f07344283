"""Arrange the model that a search returned so that it runs within a memory limit: order and recomputation."""

from __future__ import annotations

import logging
import math
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from superopt import optimizer
from superopt.errors import (
    InvalidFileError,
    InvalidModelError,
    InvalidOptionError,
    SuperoptError,
    UnsupportedError,
)
from superopt.onnx_io import LiftedModel, LoweredModel, load_model
from superopt.optimizer.check import (
    Equivalence,
    Reference,
    Sampling,
    check_equivalence,
    compare_latency,
    given_inputs,
    plan_inputs,
)
from superopt.optimizer.cost import physical_cores
from superopt.optimizer.cost.resident import session_bytes
from superopt.optimizer.cost.runtime.memory_session import Allocator, MemoryPlan
from superopt.optimizer.cost.runtime.session import Array, LoadedModel, ModelFile, RuntimeRefusedError
from superopt.optimizer.memory.arrange import Arrangement, node_times, sizes_at
from superopt.optimizer.memory.fit import Fit, fit
from superopt.optimizer.memory.liveness import liveness
from superopt.optimizer.memory.nodes import NodeProgram
from superopt.optimizer.memory.subject import measured, node_program
from superopt.optimizer.pipeline.reporting.report import (
    ArrangedNodes,
    EquivalenceSummary,
    LatencySummary,
    MemorySummary,
    Report,
    section_of,
)
from superopt.optimizer.pipeline.runnable import runnable, runnable_original, why_refused
from superopt.optimizer.training.metadata import is_step
from superopt.options import Options

_LOG = logging.getLogger(__name__)

_SHARE = 0.4
"""Share of the budget that a memory limit takes from the search."""

_FITTING = 0.5
"""Share of the remaining time for finding a schedule."""

_TIMING = 0.5
"""Share of the remaining time for timing the arranged model."""


def leaving_time(options: Options) -> Options:
    """The options of the search, with the part of the budget that arranging leaves to it."""
    if options.memory_limit is None or options.cluster is not None:
        return options
    return replace(options, budget=options.budget * (1 - _SHARE))


def within_limit(
    found: optimizer.Result, lifted: LiftedModel, options: Options, started: float
) -> optimizer.Result:
    """The result of a search with its model arranged so that its tensors are within the memory limit; as it
    is where there is no limit, or the runtime needs no more than that anyway. ``lifted`` is the original; the
    budget counts from ``started`` (monotonic clock). Raises InvalidOptionError for a limit below the lowest
    peak that was found."""
    limit = options.memory_limit
    if limit is None or options.cluster is not None:
        return found
    if options.target != "cpu":
        return _unplanned(found, limit, f"plans are for processors, and the target is {options.target}")
    try:
        with tempfile.TemporaryDirectory(prefix="superopt-") as directory:
            trial = _Trial.of(found, lifted, options, started + options.budget, Path(directory))
            return trial.arranged(found, limit)
    except (RuntimeRefusedError, InvalidModelError, UnsupportedError) as error:
        _LOG.warning("arranging %s failed: %s", found.model.source.name, error)
        return _unplanned(found, limit, str(error))


def arranged_as_recorded(model: LoweredModel, report: Mapping[str, object]) -> LoweredModel:
    """The model with its nodes in the order of a report's memory plan, if it has one. Raises
    InvalidFileError for a plan that is damaged or of another model."""
    recorded = section_of(section_of(report, "memory"), "plan")
    if not recorded or recorded.get("schedule") is None:
        return model
    try:
        schedule = tuple(int(cast("int", index)) for index in cast("list[object]", recorded["schedule"]))
        plan = MemoryPlan(
            limit=int(cast("int", recorded["limit"])),
            predicted=int(cast("int", recorded["predicted"])),
            allocator=Allocator(str(recorded["allocator"])),
            recomputed=tuple(map(str, cast("list[object]", recorded["recomputed"]))),
            reordered=bool(recorded["reordered"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidFileError(f"report: memory.plan is damaged: {error}") from error
    return Arrangement(plan, schedule).applied_to(model)


def _advised(least: int) -> int:
    """A limit that can be kept again: 2% above the lowest peak that was found, with three digits."""
    unit = 10 ** max(0, len(str(least)) - 3)
    return math.ceil(1.02 * least / unit) * unit


@dataclass(frozen=True, eq=False)
class _Trial:
    """The original, with samples of its outputs, and inputs for timing; files go to the ``directory``."""

    file: ModelFile
    reference: Reference
    feeds: Mapping[str, Array]
    threads: int
    deadline: float
    directory: Path

    @staticmethod
    def of(
        found: optimizer.Result, lifted: LiftedModel, options: Options, deadline: float, directory: Path
    ) -> _Trial:
        """Opens the original, and runs it. Raises RuntimeRefusedError where it does not run."""
        threads = options.threads or physical_cores()
        file = runnable_original(lifted, directory)
        loaded = LoadedModel(file, threads)
        plan = plan_inputs(lifted, loaded.inputs, found.report.sizes.priced or options.dims)
        given = given_inputs(lifted, plan, options.inputs)
        sampling = Sampling(options.samples, options.seed, options.tolerance, given, deadline)
        reference = Reference(loaded, plan, sampling, lifted.source)
        first = reference.first()
        if first is None:
            raise RuntimeRefusedError(plan.refusal)
        return _Trial(file, reference, first.feeds, threads, deadline, directory)

    def arranged(self, found: optimizer.Result, limit: int) -> optimizer.Result:
        """The result with a model within the limit."""
        plain = self._resident(found.model)
        if plain is not None and plain - session_bytes(found.model.node_count) <= limit:
            why = "the runtime needs no more than the limit in its own order"
            return _unplanned(found, limit, why, plain)
        nodes = self._program(found.model)
        before = liveness(nodes.program).peak
        found_fit = fit(nodes.program, limit, _FITTING * max(self._left, 1.0))
        if not found_fit.fits:
            least = found_fit.found.peak
            raise InvalidOptionError(
                f"memory limit: expected at least {_advised(least):,} bytes, got {limit:,}: another order "
                f"and recomputation were found for {least:,}, which differs a little from run to run"
            )
        arrangement = _arrangement(nodes, found_fit, limit, Allocator.ARENA)
        model = arrangement.applied_to(found.model)
        resident = self._resident(model)
        if resident is None or resident - session_bytes(model.node_count) > limit:
            arrangement = arrangement.with_allocator(Allocator.SYSTEM)
            model = arrangement.applied_to(found.model)
            resident = self._resident(model)
        file = runnable(model, self.directory)
        equivalence = check_equivalence(self.reference, LoadedModel(file, self.threads), closes=True)
        if not equivalence.passed:
            return _unplanned(found, limit, f"the arranged model is not equal: {equivalence.why}")
        summary = _summary(arrangement, before, resident, found.report.returned)
        return replace(
            found, model=model, report=self._described(found.report, model, summary, equivalence, file)
        )

    def _program(self, model: LoweredModel) -> NodeProgram:
        """The nodes of the model with measured times."""
        proto = model.to_proto()
        sizes = sizes_at(proto, self.feeds)
        times = node_times(model, self.feeds, self.threads)
        return node_program(load_model(proto, why_refused), sizes, times)

    def _resident(self, model: LoweredModel) -> int | None:
        """Peak resident bytes of a run in a process of its own; None where that cannot be measured."""
        path = self.directory / "measured.onnx"
        model.save(path)
        try:
            resident = measured(load_model(path, why_refused), self.feeds, self.threads)
        except SuperoptError:
            return None
        return None if resident is None else resident.bytes

    def _described(
        self,
        report: Report,
        model: LoweredModel,
        memory: MemorySummary,
        equivalence: Equivalence,
        file: ModelFile,
    ) -> Report:
        """The report about the arranged model, timed against the original."""
        seconds = _TIMING * self._left
        compared = None
        if seconds > 0:
            compared = compare_latency(self.file, file, self.feeds, threads=self.threads, seconds=seconds)
        why = f"equal, and {memory.why}"
        if compared is not None:
            why = f"{why}, and measured {compared.ratio:.3f} times as fast as the original"
        training = report.training
        if is_step(model.proto):
            training = {**(report.training or {}), "memory": training_section(memory)}
        return replace(
            report,
            model=replace(report.model, nodes_after=model.node_count),
            measured=None if compared is None else LatencySummary.of(compared, self.threads),
            equivalence=EquivalenceSummary.of(equivalence),
            memory=memory,
            training=training,
            returned="optimized",
            why=f"{report.why}; then {why}" if report.returned == "optimized" else why,
        )

    @property
    def _left(self) -> float:
        return max(0.0, self.deadline - time.monotonic())


def _arrangement(nodes: NodeProgram, found: Fit, limit: int, allocator: Allocator) -> Arrangement:
    names = tuple(nodes.program.operations[index].name for index in found.recomputed)
    once = tuple(dict.fromkeys(found.found.schedule))
    plan = MemoryPlan(limit, found.found.peak, allocator, names, once != nodes.program.order)
    return Arrangement(plan, found.found.schedule)


def _summary(arrangement: Arrangement, before: int, resident: int | None, of: str) -> MemorySummary:
    plan = arrangement.plan
    how = ["another order"] if plan.reordered else []
    if plan.recomputed:
        how.append(f"{len(plan.recomputed)} nodes computed again")
    measured_text = "" if resident is None else f", in a process of {resident:,}"
    return MemorySummary(
        before,
        plan.predicted,
        plan.limit,
        measured=resident,
        plan=ArrangedNodes(
            plan.limit,
            plan.predicted,
            str(plan.allocator),
            plan.recomputed,
            plan.reordered,
            arrangement.schedule,
            of,
        ),
        why=f"within {plan.predicted:,} bytes instead of {before:,} by "
        f"{' and '.join(how) or 'the order of the file'}{measured_text}",
    )


def training_section(memory: MemorySummary) -> dict[str, object]:
    """What the section ``training`` of a report says about the memory of a step."""
    plan = memory.plan
    return {
        "limit": memory.limit,
        "predicted": memory.after,
        "measured": memory.measured,
        "recomputed": [] if plan is None else list(plan.recomputed),
        "reordered": plan is not None and plan.reordered,
    }


def _unplanned(
    found: optimizer.Result, limit: int, why: str, resident: int | None = None
) -> optimizer.Result:
    """The result as it is, with the reason in the section about memory."""
    memory = found.report.memory
    before, after = (0, 0) if memory is None else (memory.before, memory.after)
    summary = MemorySummary(before, after, limit, measured=resident, why=why)
    return replace(found, report=replace(found.report, memory=summary))


__all__ = ["arranged_as_recorded", "leaving_time", "training_section", "within_limit"]

"""Equivalence check: runs two models in ONNX Runtime on the same random inputs and compares their errors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from superopt.onnx_io.changes.probing import Saturation, saturations, with_outputs
from superopt.onnx_io.files.source import SourceModel
from superopt.optimizer.check.branches import BranchesRun
from superopt.optimizer.check.compare import (
    EQUAL,
    Agreement,
    Leaf,
    compare_outputs,
    disagreement,
    leaves,
)
from superopt.optimizer.check.distance import floor_of
from superopt.optimizer.check.error_baseline import ErrorBaseline
from superopt.optimizer.check.inputs import InputPlan
from superopt.optimizer.check.judging import Evidence, Judge
from superopt.optimizer.check.sampling import Sample, Sampling, draw_samples, has_finite, outputs_vary
from superopt.optimizer.check.steps import carried_states, differing_changes, with_changes
from superopt.optimizer.cost.runtime.ports import Port
from superopt.optimizer.cost.runtime.session import Array, LoadedModel, RuntimeRefusedError

_REPEAT_SHARE = 0.1
"""Maximum difference between two runs of one model, as a share of the floor."""

_Outputs: TypeAlias = "tuple[object, ...] | RuntimeRefusedError"
"""The outputs of a model on a sample, or why it does not run on it."""

_LOOK_SHARE = 0.05
"""Share of the remaining time spent on double-precision runs that are only needed for the report."""


@dataclass(frozen=True, slots=True)
class Equivalence:
    """Verdict on two models, true if it ``passed``. ``weak``: the outputs hardly depended on the inputs, or
    mostly on rounding. ``max_rel_error`` is relative to the largest element of an output, ``tolerance`` is
    the floor, ``sizes`` are the sets of sizes of open dimensions at which outputs were compared.
    ``overflows``: the original alone computes NaN or infinities somewhere. ``undecided``: nothing could be
    compared, so that the models were not seen to differ either. ``refused``: the runtime did not run the
    other model on a sample. ``branches_missed``: branches of If nodes of the original that ran on none of the
    samples."""

    passed: bool
    samples: int
    max_abs_error: float
    max_rel_error: float
    tolerance: float
    why: str = ""
    weak: bool = False
    evidence: Evidence = field(default_factory=Evidence)
    sizes: tuple[Mapping[str, int], ...] = ()
    overflows: bool = False
    undecided: bool = False
    refused: bool = False
    branches_missed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.passed


class Reference:
    """The original with samples of its outputs, drawn once and used for every model compared with it. Given
    inputs come first; sizes of open dimensions vary; input scales are chosen so that outputs vary. If the
    ``source`` of the model is given, its own error is measured against double precision."""

    def __init__(
        self,
        model: LoadedModel,
        plan: InputPlan,
        sampling: Sampling,
        source: SourceModel | None = None,
    ) -> None:
        sampling = replace(sampling, carried=carried_states(source))
        self._model: LoadedModel | None = model
        self.inputs, self.outputs = model.inputs, model.outputs
        self.sampling = sampling
        self.names = [port.name for port in model.outputs]
        self.tolerance = floor_of(_first_float(model), sampling.tolerance)
        self.baseline = ErrorBaseline(model, source, sampling.deadline)
        self.branches = BranchesRun(self.baseline.file, model.threads)
        self.plan = plan
        self._drawn: list[Sample] = []
        self._source = draw_samples(model, plan, sampling)
        self._repeated: Agreement | None = None

    def samples(self) -> Iterator[Sample]:
        """All samples; those drawn earlier are not run again."""
        yield from self._drawn
        for sample in self._source:
            self._drawn.append(sample)
            yield sample

    def first(self) -> Sample | None:
        """One sample; None when the model does not run on any inputs that were tried."""
        return next(self.samples(), None)

    def repeated(self) -> Agreement:
        """Distance between two runs on the first sample."""
        if self._repeated is None:
            sample = self.first()
            assert sample is not None, "a model that ran on some inputs"
            assert self._model is not None, "a model in memory"
            again = self._model.run(sample.feeds)
            self._repeated = compare_outputs(self.names, sample.outputs, again, self.sampling.tolerance)
        return self._repeated

    def release(self) -> None:
        """Draws the samples that time allows and releases the model, whose weights may fill the memory."""
        if self.first() is not None:
            self.repeated()
            for _ in self.samples():
                if time.monotonic() >= self.sampling.deadline:
                    break
        self._source.close()
        self._model = self.baseline.model = None


def check_equivalence(
    reference: Reference, other: LoadedModel, *, closes: bool = False, is_rewritten: bool = False
) -> Equivalence:
    """Runs the other model on the samples of the reference and judges all outputs and saturating operands. A
    model cannot be certified if two runs of it differ, or if no output is ever finite. At least one sample is
    compared, whatever the time limit. With ``closes`` the other model runs first, for half of the time at
    most, and is closed before anything is judged: double precision takes memory, too. Of a model that
    ``is_rewritten``, branches that it no longer has are not missed."""
    difference = _signature_difference(reference, other)
    if difference:
        return _refusal(reference.tolerance, difference)
    reference.baseline.deadline = reference.sampling.deadline
    return _Check(reference, other, closes=closes, is_rewritten=is_rewritten).verdict()


class _Check:
    """Comparison of one model with the reference."""

    def __init__(self, reference: Reference, other: LoadedModel, *, closes: bool, is_rewritten: bool) -> None:
        self._is_rewritten = is_rewritten
        self._reference = reference
        self._baseline = reference.baseline
        self._other = other
        self._closes = closes
        self._judge = Judge(reference.baseline, reference.sampling.tolerance)
        self._compared: list[Sample] = []
        self._alive = False

    def verdict(self) -> Equivalence:
        """Compares sample by sample until the outputs disagree or time runs out."""
        reference = self._reference
        total, is_conclusive, last = EQUAL, False, tuple[object, ...]()
        for sample, outputs in self._runs():
            if not self._compared and reference.repeated().excess > _REPEAT_SHARE:
                why = "two runs of the original on the same inputs differ, so nothing can be certified"
                return _refusal(reference.tolerance, why, undecided=True)
            judged = self._judged(sample, outputs)
            total = total.and_also(judged)
            self._compared.append(sample)
            self._alive = self._alive or (judged.is_conclusive and self._vary(sample, last))
            is_conclusive = is_conclusive or has_finite(sample.outputs)
            last = sample.outputs
            if not total.agrees or self._is_late():
                break
        if total.agrees and self._compared and not is_conclusive:
            why = "no output has a finite number on any of the inputs, so nothing can be certified"
            return _refusal(reference.tolerance, why, undecided=True)
        if total.agrees and not (self._is_late() and self._alive):
            total = total.and_also(self._inside())
        return Equivalence(
            passed=total.agrees and bool(self._compared),
            samples=len(self._compared),
            max_abs_error=total.max_abs_error,
            max_rel_error=total.max_rel_error,
            tolerance=reference.tolerance,
            why=total.why if self._compared else self._reference.plan.refusal,
            weak=not self._alive,
            evidence=self._judge.evidence,
            sizes=self._sizes(),
            overflows=total.overflows,
            undecided=not self._compared and total.agrees,
            refused=total.refused,
            branches_missed=reference.branches.missed(
                self._compared, self._baseline.until(), self._bytes if self._is_rewritten else None
            ),
        )

    def _sizes(self) -> tuple[Mapping[str, int], ...]:
        """Each set of sizes once, in order."""
        found: list[Mapping[str, int]] = []
        for sample in self._compared:
            sizes = self._reference.plan.sizes_of(sample.feeds)
            if sizes and sizes not in found:
                found.append(sizes)
        return tuple(found)

    def _is_late(self) -> bool:
        return time.monotonic() >= self._reference.sampling.deadline

    def _runs(self) -> Iterator[tuple[Sample, _Outputs]]:
        """The samples, with what the other model gives for them."""
        runs = ((sample, self._run(sample)) for sample in self._reference.samples())
        if not self._closes:
            yield from runs
            return
        until = (time.monotonic() + self._reference.sampling.deadline) / 2
        done: list[tuple[Sample, _Outputs]] = []
        for run in runs:
            done.append(run)
            if time.monotonic() >= until:
                break
        self._other.close()
        yield from done

    def _run(self, sample: Sample) -> _Outputs:
        try:
            return self._other.run(sample.feeds)
        except RuntimeRefusedError as error:
            return error

    def _judged(self, sample: Sample, outputs: _Outputs) -> Agreement:
        if isinstance(outputs, RuntimeRefusedError):
            return disagreement(str(outputs), refused=True)
        names = self._reference.names
        ours, theirs = leaves(names, sample.outputs), leaves(names, outputs)
        judged = self._judge.judged(sample, ours, theirs)
        if judged.agrees:
            judged = judged.and_also(self._changes(sample, ours, theirs))
        if judged.agrees and not self._compared:
            self._judge.look(sample, ours, theirs, _LOOK_SHARE)
        return judged

    def _changes(self, sample: Sample, ours: Sequence[Leaf], theirs: Sequence[Leaf]) -> Agreement:
        """Compares what a training step changes its states by, which new values hardly show."""
        carried, tolerance = self._reference.sampling.carried, self._reference.sampling.tolerance
        pairs = list(zip(ours, theirs, strict=True))
        differing = differing_changes(carried, sample.feeds, pairs, tolerance)
        if not differing:
            return EQUAL
        compared = [pair for pair in pairs if pair[0].name in differing]
        judged = self._judge.judged(sample, [a for a, _ in compared], [b for _, b in compared], differing)
        return replace(judged, why=judged.why and f"{judged.why} (of what the step adds to the state)")

    def _vary(self, sample: Sample, last: tuple[object, ...]) -> bool:
        """Whether outputs vary, those of a training step as values or as changes of its states."""
        if outputs_vary(sample.outputs, last):
            return True
        reference = self._reference
        carried = reference.sampling.carried
        return bool(carried) and outputs_vary(
            with_changes(carried, sample.feeds, reference.names, sample.outputs), ()
        )

    def _inside(self) -> Agreement:
        """Compares the inputs of saturating functions in both models, where rounding hides differences in
        their outputs. Inconclusive if one of the models does not run in this form, or if tensor sizes
        differ."""
        pairs = self._saturating
        until = self._baseline.until()
        total = EQUAL
        if not pairs:
            return total
        last: tuple[object, ...] = ()
        try:
            ours = self._baseline.inside()
            assert ours is not None, "a model in memory"
            names = [saturation.operand for saturation in pairs.values()]
            theirs = LoadedModel(with_outputs(self._bytes, names), self._other.threads)
            for sample in self._compared:
                left = _named(ours, sample)
                right = _named(theirs, sample)
                a = [Leaf(own.operand, left[own.operand]) for own in pairs]
                b = [Leaf(own.operand, right[other.operand]) for own, other in pairs.items()]
                if any(x.array.shape != y.array.shape for x, y in zip(a, b, strict=True)):
                    break
                settled = {own.operand: _settling(own) for own in pairs}
                judged = self._judge.judged(sample, a, b, settled)
                total = total.and_also(judged)
                values = tuple(leaf.array for leaf in a)
                self._alive = self._alive or (judged.is_conclusive and outputs_vary(values, last))
                last = values
                if not total.agrees or time.monotonic() >= until:
                    break
        except RuntimeRefusedError:
            return total
        return total

    @cached_property
    def _bytes(self) -> bytes:
        return self._other.file if isinstance(self._other.file, bytes) else b""

    @property
    def _saturating(self) -> Mapping[Saturation, Saturation]:
        """Operands that saturate to the same output, in the original and in the other model."""
        own = self._baseline.saturations
        if not own or not self._bytes:
            return {}
        other = saturations(self._bytes)
        return {
            saturation: other[name]
            for name, saturation in own.items()
            if name in other and saturation.is_like(other[name])
        }


def _settling(saturation: Saturation) -> Callable[[Array], Array]:
    return saturation.settled


def _named(model: LoadedModel, sample: Sample) -> Mapping[str, Array]:
    outputs = model.run(sample.feeds)
    names = (port.name for port in model.outputs)
    return {name: np.asarray(output) for name, output in zip(names, outputs, strict=True)}


def _refusal(tolerance: float, why: str, *, undecided: bool = False) -> Equivalence:
    return Equivalence(
        passed=False,
        samples=0,
        max_abs_error=np.inf,
        max_rel_error=np.inf,
        tolerance=tolerance,
        why=why,
        undecided=undecided,
    )


def _signature_difference(original: Reference, other: LoadedModel) -> str:
    """Difference between the inputs and outputs of two models, empty if there is none."""
    for kind, ours, theirs in (
        ("inputs", original.inputs, other.inputs),
        ("outputs", original.outputs, other.outputs),
    ):
        left, right = (", ".join(map(_declared, ports)) or "none" for ports in (ours, theirs))
        if left != right:
            return f"different {kind}: {left} against {right}"
    return ""


def _declared(port: Port) -> str:
    return f"{port.name} ({port.dtype or 'no array'})"


def _first_float(model: LoadedModel) -> str:
    return next((p.dtype for p in model.outputs if p.dtype and p.dtype.startswith("float")), "float32")

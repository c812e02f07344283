"""Common part of all judges of rewritten models: trial procedure, equivalence check, rule at fault."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from superopt.errors import InvalidModelError, UnsupportedError
from superopt.ir.graph import Graph
from superopt.ir.plan import Plan
from superopt.onnx_io import Executed, LoweredModel, lower
from superopt.optimizer.check import Equivalence, Reference, check_equivalence
from superopt.optimizer.cost.runtime.executed_kernels import load_and_list
from superopt.optimizer.cost.runtime.session import LoadedModel, ModelFile, Provider, RuntimeRefusedError
from superopt.optimizer.pipeline.bisection import Suspect, exceeds_rounding, find_suspect
from superopt.optimizer.pipeline.original import Original
from superopt.optimizer.pipeline.prepare import Prepared
from superopt.optimizer.pipeline.reporting.report import Report
from superopt.optimizer.pipeline.runnable import runnable
from superopt.optimizer.pipeline.verdict import (
    PlannedVariant,
    PricedVariant,
    Variant,
    Verdict,
    most_promising,
)

V = TypeVar("V", bound=Variant)

REFUSED = (UnsupportedError, RuntimeRefusedError, InvalidModelError)
"""Exceptions raised when a rewritten model cannot be written or loaded."""


class UnchangedError(Exception):
    """The original is returned; the message gives the reason."""


class NotRunError(UnchangedError):
    """The original is returned, because it does not run."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A rewritten model as loaded by the runtime: the file, its executed kernels where requested, and the
    result of the equivalence check with a one-sentence reason. All are None for a model that cannot be
    run."""

    why: str
    equivalence: Equivalence | None = None
    model: LoweredModel | None = None
    file: ModelFile = b""
    executes: Executed | None = None

    @property
    def is_equal(self) -> bool:
        """Whether it is equal."""
        return self.equivalence is not None and self.equivalence.passed

    def lowered(self) -> LoweredModel:
        """The model, of one that can be run."""
        assert self.model is not None
        return self.model


@dataclass(frozen=True, eq=False)
class Equality:
    """Compares rewritten models with the original, by running both on the same inputs. ``lists_kernels``:
    whether to list the kernels that the runtime executes."""

    original: Original
    reference: Reference
    lists_kernels: bool = False

    def compare(self, lowered: Callable[[], LoweredModel]) -> Compared:
        """Lowers and runs a rewritten model."""
        try:
            model = lowered()
            file = runnable(model, self.original.directory)
            loaded, executes = self.opened(file)
            equivalence = check_equivalence(
                self.reference, loaded, closes=self.original.is_large, is_rewritten=True
            )
        except REFUSED as error:
            return Compared(f"the rewritten model cannot be run on this machine: {error}")
        why = "equal, on weak evidence because the outputs hardly vary" if equivalence.weak else "equal"
        if not equivalence.passed:
            why = f"not equal: {equivalence.why}"
        return Compared(why, equivalence, model, file, executes)

    def opened(self, file: ModelFile) -> tuple[LoadedModel, Executed | None]:
        """Loads a model, and lists its kernels where requested."""
        original = self.original
        original.make_room()
        threads, provider = original.prepared.request.threads, original.provider
        if self.lists_kernels:
            return load_and_list(file, threads, provider, original.directory)
        return LoadedModel(file, threads, provider=provider), None


class Trial(ABC, Generic[V]):
    """One optimization under one judge. ``verdicts`` are all verdicts so far; ``accepted`` is the one on the
    variant that is returned, None before and without one. Models are run by the ``provider`` on this machine;
    ``equality`` is None before they can be."""

    def __init__(self, prepared: Prepared, provider: Provider = Provider.CPU) -> None:
        self.provider = provider
        self.suspects: tuple[Suspect, ...] = ()
        self.verdicts: list[Verdict[V]] = []
        self.accepted: Verdict[V] | None = None
        self._prepared = prepared
        self._request = prepared.request
        self._schedule = prepared.request.schedule
        self._equality: Equality | None = None

    def run(self, original: Original) -> Verdict[V]:
        """The verdict that accepted a variant; raises UnchangedError where there is none."""
        variant = self._search(original)
        refusal = "cancelled" if self._request.cancel.is_cancelled else self._refusal(variant)
        if refusal:
            raise UnchangedError(refusal)
        verdict = self._decide(original, variant)
        if not verdict.accepted:
            raise UnchangedError(most_promising(self.verdicts).why)
        self.accepted = verdict
        return verdict

    @property
    def described(self) -> Verdict[V] | None:
        """The verdict that the report describes: the accepted one, else the most promising one; None where
        nothing was judged."""
        if self.accepted is not None or not self.verdicts:
            return self.accepted
        return most_promising(self.verdicts)

    @abstractmethod
    def account(self, report: Report) -> Report:
        """Add to the report the results that only this judge has, including an explanation if time allows."""

    @property
    def assignment(self) -> Mapping[str, int]:
        """The size of every symbol that is known."""
        return self._request.options.dims

    @abstractmethod
    def _search(self, original: Original) -> V:
        """The best variant by predicted cost."""

    @abstractmethod
    def _refusal(self, variant: V) -> str:
        """Return the reason why the search result need not be judged; empty if it must be."""

    @abstractmethod
    def _decide(self, original: Original, variant: V) -> Verdict[V]:
        """Judges a variant and, if it is not accepted, alternatives."""

    @abstractmethod
    def _judge(self, variant: V) -> Verdict[V]:
        """Judges one variant: equality first."""

    @abstractmethod
    def _without(self, variant: V, rule: str) -> V | None:
        """The variant without a rule, or its replacement."""

    def _judged(self, variant: V) -> Verdict[V]:
        """The verdict on a variant; if its outputs differ, on the variant without the rules at fault, which
        are reported."""
        verdict = self._judge(variant)
        while (
            verdict.variant.trace
            and verdict.equivalence is not None
            and exceeds_rounding(verdict.equivalence)
        ):
            start, trace = self._prepared.canonical.graph, verdict.variant.trace
            suspect = find_suspect(start, trace, self._request.rules, self._equivalence_of)
            if suspect is None:
                return verdict
            blamed = f"the runtime does not run what rule {suspect.rule} makes of the model"
            if not suspect.refused:
                self.suspects += (suspect,)
                self._request.on_suspect(suspect)
                blamed = f"rule {suspect.rule} is to blame, and suspect now"
            left = self._without(verdict.variant, suspect.rule)
            if left is None:
                why = f"{verdict.why}; {blamed}"
                self.verdicts[-1] = replace(verdict, why=why)
                return self.verdicts[-1]
            verdict = self._judge(left)
        return verdict

    def _equivalence_of(self, graph: Graph) -> Equivalence | None:
        """Whether a rewritten graph is equivalent; None where it cannot be run, or time is over."""
        if self._equality is None or not self._schedule.allows_check():
            return None
        return self._equality.compare(lambda: lower(self._request.lifted, graph, Plan())).equivalence


AnyTrial = Trial[PricedVariant] | Trial[PlannedVariant]


class Judge(Protocol):
    """Decides which model is returned: ``Measured`` by running models, ``Simulated`` by simulating plans."""

    @property
    def device(self) -> str | None:
        """Name of the target device in the report; None for a cluster."""
        ...

    def begin(self, prepared: Prepared) -> AnyTrial:
        """Starts a trial. Raises InvalidInputError for options that do not fit, MissingServiceError for a
        missing device."""
        ...

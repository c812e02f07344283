"""Inputs of an optimization, validated against the model before anything is run."""

from __future__ import annotations

import math
import re
import textwrap
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from superopt.ir.graph import NodeId
from superopt.onnx_io import LiftedModel, writes_open_images
from superopt.optimizer.canonical import Canonical, canonicalise
from superopt.optimizer.check import InputPlan, check_dims, declared_ports, given_inputs, plan_inputs
from superopt.optimizer.check.inputs import NOT_RUN, inputs_to_give
from superopt.optimizer.cost import physical_cores
from superopt.optimizer.cost.runtime.session import Array
from superopt.optimizer.pipeline.bisection import OnSuspect
from superopt.optimizer.pipeline.runnable import weight_bytes
from superopt.optimizer.pipeline.schedule import Schedule
from superopt.optimizer.pipeline.selection import kept_nodes, usable_rules
from superopt.optimizer.search import CancelToken, Phase, Progress, ProgressCallback, RuleSet
from superopt.options import Options
from superopt.rewriting import Substitution


@dataclass(frozen=True, eq=False)
class Request:
    """Inputs of one optimization. ``rules`` must all be verified; ``on_suspect`` is called immediately for
    rules that changed outputs, which are then no longer used. The budget counts from ``started`` (monotonic
    clock)."""

    lifted: LiftedModel
    rules: Sequence[Substitution]
    options: Options
    progress: ProgressCallback | None = None
    cancel: CancelToken = field(default_factory=CancelToken)
    started: float = field(default_factory=time.monotonic)
    on_suspect: OnSuspect = lambda _: None

    @property
    def threads(self) -> int:
        """Number of threads used by models."""
        return self.options.threads or physical_cores()

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self.started

    @cached_property
    def schedule(self) -> Schedule:
        """Division of the budget."""
        return Schedule(self.started, self.options.budget, weight_bytes(self.lifted))

    def heeds_interrupt(self) -> bool:
        """Whether the best result found so far was requested; if so, the schedule is shortened."""
        if self.cancel.is_interrupted:
            self.schedule.shorten()
        return self.cancel.is_interrupted

    def tell(
        self, phase: Phase, candidates: int = 0, before: float = math.nan, best: float = math.nan
    ) -> None:
        """Reports progress."""
        if self.progress is not None:
            self.progress(Progress(phase, self.seconds, candidates, before, best))


@dataclass(frozen=True, eq=False)
class Prepared:
    """A request validated against its model: usable rules, nodes that must be kept, the graph that searches
    start from, the plan for generating inputs, given inputs."""

    request: Request
    usable: tuple[Substitution, ...]
    protected: frozenset[NodeId]
    canonical: Canonical
    inputs: InputPlan
    given: tuple[Mapping[str, Array], ...]

    def rule_set(self, rules: Iterable[Substitution]) -> RuleSet:
        """Rules as a search of the model applies them."""
        opset = self.request.lifted.source.opset
        return RuleSet(rules, self.protected, may_open_images=opset is None or writes_open_images(opset))


def prepare(request: Request) -> Prepared:
    """Validates the request. Raises InvalidOptionError and InvalidFileError for options that do not fit the
    model."""
    lifted, options = request.lifted, request.options
    usable = tuple(usable_rules(request.rules, options, lifted.source.opset))
    check_dims(options.dims, lifted)
    protected = kept_nodes(lifted, options.keep)
    inputs = plan_inputs(lifted, declared_ports(lifted), options.dims)
    given = given_inputs(lifted, inputs, options.inputs)
    return Prepared(request, usable, protected, canonicalise(lifted, protected), inputs, given)


_MOST_OF_REASON = 200
"""Characters of the runtime's message that are shown."""

_BEFORE_THE_CAUSE = re.compile(r"\[ONNXRuntimeError\] : \d+ : \w+ : |Status Message: | was false\. ")
"""What precedes a cause in the runtime's messages: codes, the failing node, a condition in its source."""

_PLACE_IN_SOURCE = re.compile(r"^\S+\.(?:h|cc|cpp):\d+ ")


def refusal_of(options: Options, guessed: Sequence[str] = (), reason: str = "") -> str:
    """Why the original does not run, at the requested sizes or at any tried for the ``guessed`` ones, with
    the runtime's reason where it is known, and what to do."""
    sizes = ", ".join(f"{name}={size}" for name, size in options.dims.items())
    why = f"the original does not run at {sizes}" if sizes else NOT_RUN
    if reason:
        why = f"{why} ({textwrap.shorten(_cause(reason), _MOST_OF_REASON, placeholder=' …')})"
    return f"{why}; {inputs_to_give(guessed)}"


def _cause(reason: str) -> str:
    """What the runtime says of the cause, without where in its source it is said."""
    message = reason.partition("\n")[0]
    return _PLACE_IN_SOURCE.sub("", _BEFORE_THE_CAUSE.split(message)[-1])

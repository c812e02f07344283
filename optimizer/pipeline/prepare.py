"""Inputs of an optimization, validated against the model before anything is run."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from superopt.ir.graph import NodeId
from superopt.onnx_io import LiftedModel
from superopt.optimizer.canonical import Canonical, canonicalise
from superopt.optimizer.check import InputPlan, check_dims, declared_ports, given_inputs, plan_inputs
from superopt.optimizer.cost import physical_cores
from superopt.optimizer.cost.runtime import Array
from superopt.optimizer.pipeline.blame import Accuse
from superopt.optimizer.pipeline.runnable import weight_bytes
from superopt.optimizer.pipeline.schedule import Schedule
from superopt.optimizer.pipeline.selection import kept_nodes, usable_rules
from superopt.optimizer.search import CancelToken, Phase, Progress, ProgressCallback
from superopt.options import Options
from superopt.rewriting import Substitution


@dataclass(frozen=True, eq=False)
class Request:
    """What one optimization is given.

    ``rules`` must all be verified; ``accuse`` is told at once of those that changed outputs, which are not
    used further. The budget counts from ``started`` (monotonic clock).
    """

    lifted: LiftedModel
    rules: Sequence[Substitution]
    options: Options
    progress: ProgressCallback | None = None
    cancel: CancelToken = field(default_factory=CancelToken)
    started: float = field(default_factory=time.monotonic)
    accuse: Accuse = lambda _: None

    @property
    def threads(self) -> int:
        """How many threads models run with."""
        return self.options.threads or physical_cores()

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self.started

    @cached_property
    def schedule(self) -> Schedule:
        """How the budget is shared."""
        return Schedule(self.started, self.options.budget, weight_bytes(self.lifted))

    def tell(
        self, phase: Phase, candidates: int = 0, before: float = math.nan, best: float = math.nan
    ) -> None:
        """Reports progress."""
        if self.progress is not None:
            self.progress(Progress(phase, self.seconds, candidates, before, best))


@dataclass(frozen=True, eq=False)
class Prepared:
    """A request that fits its model: the rules that may be used, the nodes that must stay, the graph that
    searches begin with, how inputs are drawn, those that were given."""

    request: Request
    usable: tuple[Substitution, ...]
    protected: frozenset[NodeId]
    canonical: Canonical
    inputs: InputPlan
    given: tuple[Mapping[str, Array], ...]


def prepare(request: Request) -> Prepared:
    """Checks what was given. Raises InvalidOptionError and InvalidFileError for what does not fit."""
    lifted, options = request.lifted, request.options
    usable = tuple(usable_rules(request.rules, options, lifted.source.opset))
    check_dims(options.dims, tuple(lifted.symbols))
    protected = kept_nodes(lifted, options.keep)
    inputs = plan_inputs(lifted, declared_ports(lifted), options.dims)
    given = () if options.inputs is None else (given_inputs(lifted, inputs, options.inputs),)
    return Prepared(request, usable, protected, canonicalise(lifted, protected), inputs, given)


def refusal_of(options: Options, guessed: Sequence[str] = ()) -> str:
    """Why the original does not run: at the sizes that were asked for, or at any that was tried for those
    ``guessed``; and what to do."""
    sizes = ", ".join(f"{name}={size}" for name, size in options.dims.items())
    why = f"the original does not run at {sizes}" if sizes else "the original does not run on random inputs"
    wanted = f"valid sizes of {', '.join(guessed)} (--dim {guessed[0]}=SIZE)" if guessed else "other sizes"
    return f"{why}; give {wanted}, or --inputs"

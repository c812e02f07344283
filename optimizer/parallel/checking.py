"""Whether a rewritten graph is equal to a model that is planned for a cluster, found by running both here."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from superopt.errors import InvalidModelError, UnsupportedError
from superopt.ir.graph import Graph
from superopt.ir.plan import Plan
from superopt.onnx_io import LiftedModel
from superopt.optimizer.blame import Accuse, Suspect, blamed, is_false
from superopt.optimizer.check import (
    Equivalence,
    Reference,
    Sampling,
    check_equivalence,
    declared_ports,
    load_inputs,
    plan_inputs,
)
from superopt.optimizer.cost import physical_cores
from superopt.optimizer.cost.runtime import LoadedModel, RuntimeRefusedError
from superopt.optimizer.parallel.search.subject import Subject
from superopt.optimizer.parallel.task_costs import roofline_microseconds
from superopt.optimizer.parallel.topology import DeviceKind
from superopt.optimizer.runnable import runnable_original, runnable_rewrite, weight_bytes
from superopt.optimizer.search import TraceStep
from superopt.options import Options
from superopt.rewriting import Substitution

_SAMPLING_SHARE = 0.15
"""Of the budget: until then the scale of random inputs is tried out on the original."""

_RUNS = 6
"""Of a model to check another one: to find out what inputs it takes, and to compare."""

_LOADS = 4
"""How often weights are read or written for that."""

_CAUTION = 1.5
_BYTES_PER_SECOND = 4e9
_LAUNCH = 5.0
_SQUARE = 512

CHECKED_BYTES = 1 << 30
"""Weights of a model that is run here to check a rewritten one; a larger one is planned as it is."""


@dataclass
class Check:
    """Runs the original once, and others on the same inputs; files are written into the directory.

    ``nodes`` are those of the ONNX model of the last graph that was checked, 0 before; ``suspects`` the rules
    that were to blame for differences, of which ``accuse`` was told.
    """

    lifted: LiftedModel
    options: Options
    started: float
    directory: Path
    accuse: Accuse = lambda _: None
    nodes: int = 0
    suspects: tuple[Suspect, ...] = ()
    _known: tuple[Reference | None, str] | None = field(default=None)

    def forecast(self, graph: Graph) -> float:
        """Seconds that a check is likely to take, of which most are for the original; ``graph`` is it at the
        sizes at which it is run. By the operations and bytes of it, and the speed of a product here."""
        kind = DeviceKind("here", _flops_here(), 0.0, _BYTES_PER_SECOND, _LAUNCH)
        once = sum(
            roofline_microseconds(operation.operator, operation.inputs, operation.outputs, kind, ())
            for operation in Subject.of(graph).operations
        )
        return _RUNS * _CAUTION * once / 1e6 + _LOADS * weight_bytes(self.lifted) / _BYTES_PER_SECOND

    def seconds_to_prepare(self) -> float:
        """Runs the original; how long that took."""
        began = time.monotonic()
        self.reference()
        return time.monotonic() - began

    @property
    def can_be_made(self) -> bool:
        """Whether the original runs here."""
        return self.reference()[0] is not None

    def checked(self, graph: Graph) -> tuple[Equivalence | None, str]:
        """Whether the rewritten graph is equal to the original, by running both here; and what to say."""
        reference, why = self.reference()
        if reference is None:
            return None, why
        try:
            model, self.nodes = runnable_rewrite(self.lifted, graph, Plan(), self.directory)
            equivalence = check_equivalence(reference, LoadedModel(model, self._threads))
        except (UnsupportedError, RuntimeRefusedError, InvalidModelError) as error:
            return None, f"the rewritten model cannot be run here: {error}"
        return equivalence, "equal" if equivalence.passed else f"not equal: {equivalence.why}"

    def blame(
        self,
        start: Graph,
        trace: Sequence[TraceStep],
        rules: Sequence[Substitution],
        equivalence: Equivalence | None,
    ) -> None:
        """Finds the rule to blame where a trace led to other outputs, in the time that the budget leaves."""
        if equivalence is None or not trace or not is_false(equivalence):
            return
        nodes, ends = self.nodes, self.started + self.options.budget

        def compare(graph: Graph) -> Equivalence | None:
            return None if time.monotonic() >= ends else self.checked(graph)[0]

        suspect = blamed(start, trace, rules, compare)
        self.nodes = nodes
        if suspect is not None:
            self.suspects += (suspect,)
            self.accuse(suspect)

    def reference(self) -> tuple[Reference | None, str]:
        """The original, run on a first sample; else None and why not."""
        if self._known is None:
            self._known = self._opened()
        return self._known

    def _opened(self) -> tuple[Reference | None, str]:
        lifted, options = self.lifted, self.options
        if weight_bytes(lifted) > CHECKED_BYTES:
            return None, "it is too large to be checked here"
        given = () if options.inputs is None else (load_inputs(options.inputs, declared_ports(lifted)),)
        try:
            loaded = LoadedModel(runnable_original(lifted, self.directory), self._threads)
        except (UnsupportedError, RuntimeRefusedError, InvalidModelError) as error:
            return None, f"the original cannot be run here: {error}"
        scaled = self.started + _SAMPLING_SHARE * options.budget
        sampling = Sampling(options.samples, options.seed, options.tolerance, given, scaled)
        inputs = plan_inputs(lifted, loaded.inputs, options.dims)
        reference = Reference(loaded, inputs, sampling, lifted.source)
        if reference.first() is None:
            return None, "the original does not run on random inputs"
        reference.sampling = replace(sampling, deadline=self.started + options.budget)
        return reference, ""

    @property
    def _threads(self) -> int:
        return self.options.threads or physical_cores()


def _flops_here() -> float:
    """Operations per second of a product of matrices, the best of a few."""
    square = np.ones((_SQUARE, _SQUARE), np.float32)
    seconds: list[float] = []
    for _ in range(4):
        began = time.monotonic()
        np.matmul(square, square)
        seconds.append(time.monotonic() - began)
    return 2 * _SQUARE**3 / max(min(seconds), 1e-6)

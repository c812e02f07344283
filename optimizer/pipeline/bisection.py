"""Find the rule responsible for wrong outputs: the first step of a trace that changes them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from superopt.ir.graph import Graph, Node
from superopt.ir.types import TensorType, ValueType
from superopt.onnx_io.lifting.models import computes_sizes
from superopt.onnx_io.protos import STANDARD_DOMAINS
from superopt.ops import Opaque
from superopt.optimizer.check import Equivalence
from superopt.optimizer.search import TraceStep, replay
from superopt.rewriting import Substitution

_BEYOND_FLOORS, _LARGE = 1e2, 0.1
"""A rule is reported as suspect only if an element is off by this multiple of the floor, or by this share of
the largest element. Smaller differences only reject the model: reordered sums and fast convolution transforms
have errors that a tolerance may exclude."""

_BEYOND_OWN = 10.0
"""The error must also exceed this multiple of what the original's own rounding allows."""

_FINEST = 1e-5
"""Minimum floor for reporting a rule: that of single precision."""


_JUMPING = frozenset(
    (
        *("Ceil", "Floor", "GridSample", "Hardmax", "If", "Loop", "Mod"),
        *("RoiAlign", "Round", "Scan", "Sign", "TopK", "Unique"),
    )
)
"""Opaque ONNX operators whose floating-point results may jump: rounding in front of them, or in their bodies,
changes outputs by any amount."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A rule that changed the outputs: the difference, and the steps up to and including its application.
    ``refused``: the runtime does not run what it makes, which says nothing about the equation."""

    rule: str
    equation: str
    difference: str
    steps: tuple[TraceStep, ...]
    refused: bool = False

    def summary(self) -> dict[str, object]:
        """The rule and the difference as JSON values."""
        return {"rule": self.rule, "equation": self.equation, "difference": self.difference}


OnSuspect = Callable[[Suspect], None]
"""Callback that is called immediately with a rule that changed outputs."""


def find_suspect(
    start: Graph,
    trace: Sequence[TraceStep],
    rules: Sequence[Substitution],
    compare: Callable[[Graph], Equivalence | None],
) -> Suspect | None:
    """The rule of the first step after which the graph differs from the original by more than rounding.
    Bisects the trace: the number of comparisons is logarithmic in its length. None where the graph differs
    without any step, where it has operators whose results jump, or where a comparison is not possible or time
    is over."""
    if jumps(start):
        return None
    found: dict[int, Equivalence] = {}

    def is_equal(count: int) -> bool | None:
        equivalence = compare(replay(start, trace[:count], rules))
        if equivalence is None:
            return None
        found[count] = equivalence
        return not exceeds_rounding(equivalence)

    count = first_difference(len(trace), is_equal)
    if count is None:
        return None
    steps = tuple(replace(step, cost_before=0.0, cost_after=0.0) for step in trace[:count])
    return Suspect(
        steps[-1].rule, steps[-1].equation, described(found[count]), steps, refused=found[count].refused
    )


def jumps(graph: Graph) -> bool:
    """Whether a difference of outputs says nothing about a rule, since rounding may change them by any
    amount: the graph quantises, rounds, sorts or compares numbers, turns them into integers, or has nodes
    with bodies or of other domains, of which that is not known."""
    return any(_may_jump(graph, node) for node in graph)


def _may_jump(graph: Graph, node: Node) -> bool:
    operator = node.operator
    if isinstance(operator, Opaque):
        if computes_sizes(operator):
            return False
        if operator.domain not in STANDARD_DOMAINS or operator.op_type in _JUMPING:
            return True
    reads_numbers = any(_is_float(graph.type_of(value)) for value in node.inputs)
    return reads_numbers and any(isinstance(t, TensorType) and not t.element.is_float for t in node.types)


def _is_float(type_: ValueType) -> bool:
    return isinstance(type_, TensorType) and type_.element.is_float


def first_difference(steps: int, is_equal: Callable[[int], bool | None]) -> int | None:
    """Number of steps after which a difference first appears, found by bisection. None where there is none
    after all steps, there is one before the first, or ``is_equal`` cannot decide."""
    if is_equal(steps) is not False or is_equal(0) is not True:
        return None
    same, different = 0, steps
    while different - same > 1:
        middle = (same + different) // 2
        answer = is_equal(middle)
        if answer is None:
            return None
        same, different = (middle, different) if answer else (same, middle)
    return different


def exceeds_rounding(equivalence: Equivalence) -> bool:
    """Whether outputs were compared, and differ by more than rounding and overflow explain."""
    if equivalence.passed or not equivalence.samples or equivalence.overflows:
        return False
    if math.isinf(equivalence.max_rel_error):
        return True
    least = min(_LARGE, _BEYOND_FLOORS * max(equivalence.tolerance, _FINEST))
    return equivalence.max_rel_error > least and equivalence.evidence.excess > _BEYOND_OWN


def described(equivalence: Equivalence) -> str:
    """Description of the difference."""
    return f"{equivalence.why} (largest relative error {equivalence.max_rel_error:.3g})"

"""Compare the outputs of two runs: names, types, NaN, infinities and numerical error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from superopt.optimizer.check.distance import NONE, distance, floor_of
from superopt.optimizer.cost.runtime.session import Array


@dataclass(frozen=True, slots=True)
class Agreement:
    """Distance between two sets of outputs. ``max_rel_error`` is relative to the largest element of an
    output; ``excess`` is the distance in multiples of the tolerance, so outputs agree if it is at most 1.
    ``is_conclusive`` is False if rounding alone changes an output by a large share of it. ``overflows``:
    numbers of the original alone are beyond the range of floating point, which says nothing about rules.
    ``refused``: the runtime does not run the other model."""

    agrees: bool
    max_abs_error: float
    max_rel_error: float
    excess: float
    why: str = ""
    is_conclusive: bool = True
    overflows: bool = False
    refused: bool = False

    def and_also(self, other: Agreement) -> Agreement:
        """Combination of two agreements: the worse of each field."""
        return Agreement(
            self.agrees and other.agrees,
            max(self.max_abs_error, other.max_abs_error),
            max(self.max_rel_error, other.max_rel_error),
            max(self.excess, other.excess),
            self.why or other.why,
            self.is_conclusive and other.is_conclusive,
            self.overflows or other.overflows,
            self.refused or other.refused,
        )


EQUAL = Agreement(agrees=True, max_abs_error=0.0, max_rel_error=0.0, excess=0.0)


@dataclass(frozen=True, slots=True)
class Leaf:
    """An array among the outputs; elements of a sequence or a map are numbered in its name."""

    name: str
    array: Array

    @property
    def is_real(self) -> bool:
        """Whether it holds real numbers, which are subject to rounding."""
        return self.array.dtype.kind in "fc"


def leaves(names: Sequence[str], outputs: Sequence[object]) -> tuple[Leaf, ...]:
    """All arrays of a run, with sequences and maps flattened."""
    return tuple(leaf for name, output in zip(names, outputs, strict=True) for leaf in _leaves(name, output))


def _leaves(name: str, output: object) -> Iterator[Leaf]:
    if isinstance(output, list | tuple):
        items = cast("Sequence[object]", output)
        yield Leaf(f"{name}.length", np.asarray(len(items)))
        for index, item in enumerate(items):
            yield from _leaves(f"{name}[{index}]", item)
    elif isinstance(output, dict):
        pairs = sorted(cast("Mapping[object, object]", output).items(), key=repr)
        yield from _leaves(name, [list(pair) for pair in pairs])
    elif output is None:
        yield Leaf(f"{name} (nothing)", np.zeros(0, np.int64))
    else:
        yield Leaf(name, np.asarray(output))


def mismatch(left: Sequence[Leaf], right: Sequence[Leaf]) -> str:
    """Reason why two runs cannot be compared (different arrays, types, shapes, NaN or infinities), else
    empty."""
    if [leaf.name for leaf in left] != [leaf.name for leaf in right]:
        return f"{len(left)} outputs against {len(right)}"
    for a, b in zip(left, right, strict=True):
        if a.array.shape != b.array.shape or a.array.dtype != b.array.dtype:
            ours, theirs = (f"{leaf.array.dtype}{list(leaf.array.shape)}" for leaf in (a, b))
            return f"output {a.name}: {ours} against {theirs}"
        if not a.is_real:
            continue
        finite = np.isfinite(a.array)
        if not np.array_equal(finite, np.isfinite(b.array)):
            return f"output {a.name}: NaN or infinite in different places"
        if not np.array_equal(a.array[~finite], b.array[~finite], equal_nan=True):
            return f"output {a.name}: different NaN or infinities"
    return ""


def incomparable(left: Sequence[Leaf], right: Sequence[Leaf]) -> Agreement | None:
    """The disagreement of two runs that cannot be compared, as ``mismatch`` says; None of others."""
    why = mismatch(left, right)
    return replace(disagreement(why), overflows=_overflows(left, right)) if why else None


def _overflows(left: Sequence[Leaf], right: Sequence[Leaf]) -> bool:
    """Whether two runs differ only in that the left computes NaN or infinities where the right has others or
    numbers."""
    if [(leaf.name, leaf.array.shape) for leaf in left] != [(leaf.name, leaf.array.shape) for leaf in right]:
        return False
    pairs = [(a.array, b.array) for a, b in zip(left, right, strict=True) if a.is_real and b.is_real]
    finite = [(np.isfinite(ours), np.isfinite(theirs)) for ours, theirs in pairs]
    return all(bool(np.all(theirs | ~ours)) for ours, theirs in finite) and any(
        not np.all(ours) for ours, _ in finite
    )


def compare_outputs(
    names: Sequence[str], left: Sequence[object], right: Sequence[object], tolerance: float | None
) -> Agreement:
    """Compares all outputs of two runs, each within the tolerance of its element type. Outputs that are not
    floating point must be equal."""
    if len(left) != len(right):
        return disagreement(f"{len(left)} outputs against {len(right)}")
    ours, theirs = leaves(names, left), leaves(names, right)
    apart = incomparable(ours, theirs)
    if apart is not None:
        return apart
    total = EQUAL
    for a, b in zip(ours, theirs, strict=True):
        total = total.and_also(_compare(a, b, tolerance))
    return total


def _compare(left: Leaf, right: Leaf, tolerance: float | None) -> Agreement:
    if not left.is_real:
        return EQUAL if np.array_equal(left.array, right.array) else disagreement(difference(left, right))
    apart = distance(right.array, left.array)
    excess = apart.excess(NONE, floor_of(str(left.array.dtype), tolerance))
    why = "" if excess <= 1 else f"output {left.name}: an element differs by {excess:.3g} times the tolerance"
    return Agreement(excess <= 1, apart.absolute, apart.largest, excess, why)


def difference(left: Leaf, right: Leaf) -> str:
    """Message with the number of differing elements."""
    return (
        f"output {left.name}: {int(np.sum(left.array != right.array))} of {left.array.size} elements differ"
    )


def disagreement(why: str, *, refused: bool = False) -> Agreement:
    """Agreement that fails for a reason other than a numerical error."""
    return Agreement(
        agrees=False, max_abs_error=np.inf, max_rel_error=np.inf, excess=np.inf, why=why, refused=refused
    )

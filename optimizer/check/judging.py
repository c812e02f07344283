"""Acceptance criterion for outputs of a rewritten model, relative to the original's own numerical error.

An output passes if it is within the floor of the original's output; otherwise if its error against double
precision is at most a multiple of the original's own error plus the floor. The original's own error is its
error against double precision or its change when inputs and weights move by one unit in the last place,
whichever is larger. Without a double-precision run of a sample, that of other samples is used in its place,
and errors are distances from the original.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from superopt.optimizer.check.compare import (
    EQUAL,
    Agreement,
    Leaf,
    difference,
    disagreement,
    incomparable,
)
from superopt.optimizer.check.distance import MULTIPLE, NONE, Distance, distance, floor_of
from superopt.optimizer.check.error_baseline import ErrorBaseline, Precise
from superopt.optimizer.check.sampling import CONCLUSIVE_SHARE, Sample
from superopt.optimizer.cost.runtime.session import Array

ORIGINAL, DOUBLE, SPREAD = "original", "double precision", "spread of the original"
"""Reference for a comparison of outputs."""

_COARSE = 10
"""Own errors up to this multiple of the floor are accepted: those of half precision."""

_STRAYS = 1e-3
"""Share of elements that may differ from all runs of the original, if its own depend on rounding."""

Settle = Callable[[Array], Array]


@dataclass(frozen=True, slots=True)
class Evidence:
    """The comparison closest to failing: its ``output``, its ``reference``, and the errors of both models
    against it; None where outputs were compared with the original alone. ``excess`` is in multiples of the
    tolerance. ``single``: how many of the ``nodes`` ran in single precision for the reference. ``why``: why
    there is no double-precision reference."""

    reference: str = ORIGINAL
    output: str = ""
    excess: float = -1.0
    own_error: Distance | None = None
    error: Distance | None = None
    nodes: int = 0
    single: int = 0
    why: str = ""


class Judge:
    """Judges samples of one rewritten model; ``evidence`` covers all samples so far."""

    def __init__(self, baseline: ErrorBaseline, tolerance: float | None) -> None:
        self._baseline = baseline
        self._tolerance = tolerance
        self.evidence = Evidence()

    def judged(
        self,
        sample: Sample,
        ours: Sequence[Leaf],
        theirs: Sequence[Leaf],
        settled: Mapping[str, Settle] | None = None,
    ) -> Agreement:
        """Compare two runs on a sample. ``settled`` tensors saturate to an output, so their absolute error
        matters and the floor is absolute, too."""
        apart = incomparable(ours, theirs)
        if apart is not None:
            return apart
        total = EQUAL
        for a, b in zip(ours, theirs, strict=True):
            settle = (settled or {}).get(a.name, _as_it_is)
            judged = self._real(sample, a, b, settle) if a.is_real else self._exact(sample, a, b)
            total = total.and_also(judged)
        return total

    def look(self, sample: Sample, ours: Sequence[Leaf], theirs: Sequence[Leaf], share: float) -> None:
        """Record the errors of both models against double precision, if that takes little time."""
        precise = self._baseline.precise_soon(sample, share)
        for a, b in zip(ours, theirs, strict=True):
            if precise is not None and a.is_real:
                aim = _aim(precise, a, _as_it_is)
                if aim is not None:
                    own, error = distance(a.array, aim), distance(b.array, aim)
                    floor = floor_of(str(a.array.dtype), self._tolerance)
                    self._note(DOUBLE, a.name, error.excess(own, floor), own, error, precise)

    def _real(self, sample: Sample, ours: Leaf, theirs: Leaf, settle: Settle) -> Agreement:
        floor = floor_of(str(ours.array.dtype), self._tolerance)
        a, b = settle(ours.array), settle(theirs.array)
        if settle is not _as_it_is:
            floor /= max(1.0, float(np.abs(a[np.isfinite(a)]).max(initial=0.0)))
        direct = distance(b, a)
        if direct.excess(NONE, floor) <= 1:
            return Agreement(True, direct.absolute, direct.largest, direct.excess(NONE, floor))  # noqa: FBT003
        own, error, aim, kind = NONE, direct, a, SPREAD
        precision = NONE
        precise = self._baseline.precise(sample)
        exact = None if precise is None else _aim(precise, ours, settle)
        if exact is not None:
            found = precision = distance(a, exact)
            if found.rms <= max(CONCLUSIVE_SHARE, _COARSE * floor):
                own, error, aim, kind = found, distance(b, exact), exact, DOUBLE
                if settle is _as_it_is:
                    self._baseline.note_own_error(ours.name, found)
        elif settle is _as_it_is:
            own = self._baseline.own_errors.get(ours.name, NONE)
        spread: list[Array] = []
        if error.excess(own, floor) > 1:
            tensors = (run.get(ours.name) for run in self._baseline.perturbed(sample))
            spread = [settle(t) for t in tensors if t is not None and t.shape == ours.array.shape]
            for moved in spread:
                own = own.worst(distance(moved, aim))
        excess = error.excess(own, floor)
        self._note(kind, ours.name, excess, own, error, precise)
        why = "" if excess <= 1 else _explained(ours, excess, error, own, kind)
        is_conclusive = own.rms <= max(CONCLUSIVE_SHARE, _COARSE * floor)
        if excess <= 1 and not is_conclusive and precision.rms <= _COARSE * floor:
            why = _unlike(ours, b, [a, aim, *spread], MULTIPLE.largest * precision.largest + _COARSE * floor)
            excess = np.inf if why else excess
        return Agreement(excess <= 1, direct.absolute, direct.largest, excess, why, is_conclusive)

    def _exact(self, sample: Sample, ours: Leaf, theirs: Leaf) -> Agreement:
        """Require that outputs without floating point numbers equal those of the original or of one of its
        perturbed runs, element by element."""
        a, b = ours.array, theirs.array
        if np.array_equal(a, b):
            return EQUAL
        precise = self._baseline.precise(sample)
        runs = [*(() if precise is None else (precise.tensors,)), *self._baseline.perturbed(sample)]
        known = [run[ours.name] for run in runs if ours.name in run and run[ours.name].shape == a.shape]
        explained = a == b
        for other in known:
            explained = explained | (other == b)
        if np.all(explained):
            return EQUAL
        flips = max((int(np.sum(other != a)) for other in known), default=0)
        return disagreement(
            f"{difference(ours, theirs)}, and not where rounding alone changes the original "
            f"({flips} elements in {len(known)} runs)"
        )

    def _note(
        self,
        kind: str,
        output: str,
        excess: float,
        own: Distance,
        error: Distance,
        precise: Precise | None,
    ) -> None:
        if excess <= self.evidence.excess:
            return
        nodes, single = (0, 0) if precise is None else (precise.nodes, precise.single)
        self.evidence = Evidence(kind, output, excess, own, error, nodes, single, self._baseline.why)


def _as_it_is(array: Array) -> Array:
    return array


def _aim(precise: Precise, leaf: Leaf, settle: Settle) -> Array | None:
    """The double-precision tensor, if its shape matches and it is finite in the same places."""
    exact = precise.tensors.get(leaf.name)
    if exact is None or exact.shape != leaf.array.shape:
        return None
    if not np.array_equal(np.isfinite(exact), np.isfinite(leaf.array)):
        return None
    return settle(exact)


def _unlike(leaf: Leaf, array: Array, runs: Sequence[Array], tolerance: float) -> str:
    """Why the elements are not those of such runs. Where the original is exact, and yet rounding changes much
    of it, comparisons of equal numbers decide: then each element is one of those that such runs have, but for
    as many as one run has that no other one has. Equal runs count once."""
    runs = [run for at, run in enumerate(runs) if not any(np.array_equal(run, r) for r in runs[:at])]
    tolerance *= float(np.abs(runs[0][np.isfinite(runs[0])]).max(initial=0.0))
    own = max(_stray(run, [*runs[:at], *runs[at + 1 :]], tolerance) for at, run in enumerate(runs))
    strays = _stray(array, runs, tolerance)
    if strays <= 2 * own + _STRAYS * array.size:
        return ""
    return (
        f"output {leaf.name}: {strays} of {array.size} elements are none that the original has on any of "
        f"{len(runs)} runs with other rounding, of which one has at most {own} such elements"
    )


def _stray(array: Array, runs: Sequence[Array], tolerance: float) -> int:
    """The number of elements that are close to none of the same place in the runs."""
    found = np.zeros(array.shape, np.bool_)
    for run in runs:
        found |= np.isclose(array, run, rtol=0.0, atol=tolerance, equal_nan=True)
    return int(array.size - np.count_nonzero(found))


def _explained(leaf: Leaf, excess: float, error: Distance, own: Distance, kind: str) -> str:
    against = "double precision" if kind == DOUBLE else "the original"
    return (
        f"output {leaf.name}: an element differs by {excess:.3g} times the tolerance: the rewritten "
        f"model is {error.rms:.1e} of the size of the output off {against}, {error.largest:.1e} at most, and "
        f"rounding makes the original {own.rms:.1e} and {own.largest:.1e} off"
    )

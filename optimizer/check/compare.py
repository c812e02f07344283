"""Whether the outputs of two models agree: tolerances by element type, NaN and infinities where they were."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from optimizer.cost.runtime import Array

_RELATIVE = {"float16": 1e-2, "float32": 1e-3, "float64": 1e-6}
_ABSOLUTE_SHARE = 1e-2
"""The absolute tolerance is this share of the relative one, times the largest output: 1e-5 for float32."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far two sets of outputs are apart. ``max_rel_error`` is relative to an element plus a hundredth of
    the largest one, so that numbers near 0 do not decide; they agree where it is within the tolerance.
    ``excess`` is the same in units of the tolerance."""

    agrees: bool
    max_abs_error: float
    max_rel_error: float
    excess: float
    why: str = ""

    def and_also(self, other: Agreement) -> Agreement:
        """Both at once."""
        return Agreement(
            self.agrees and other.agrees,
            max(self.max_abs_error, other.max_abs_error),
            max(self.max_rel_error, other.max_rel_error),
            max(self.excess, other.excess),
            self.why or other.why,
        )


EQUAL = Agreement(agrees=True, max_abs_error=0.0, max_rel_error=0.0, excess=0.0)


def relative_tolerance(dtype: str, tolerance: float | None) -> float:
    """The relative tolerance for an element type, or the one that the user gave."""
    return tolerance if tolerance is not None else _RELATIVE.get(dtype, 1e-2)


def compare_outputs(
    names: Sequence[str], left: Sequence[object], right: Sequence[object], tolerance: float | None
) -> Agreement:
    """Compares all outputs of two runs, sequences and maps element by element."""
    if len(left) != len(right):
        return disagreement(f"{len(left)} outputs against {len(right)}")
    total = EQUAL
    for name, a, b in zip(names, left, right, strict=True):
        total = total.and_also(_compare(name, a, b, tolerance))
    return total


def _compare(name: str, left: object, right: object, tolerance: float | None) -> Agreement:
    if left is None or right is None:
        return EQUAL if left is right else disagreement(f"output {name}: one side is empty")
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        ours, theirs = cast("Sequence[object]", left), cast("Sequence[object]", right)
        if len(ours) != len(theirs):
            return disagreement(f"output {name}: sequences of {len(ours)} and {len(theirs)}")
        total = EQUAL
        for a, b in zip(ours, theirs, strict=True):
            total = total.and_also(_compare(name, a, b, tolerance))
        return total
    if isinstance(left, dict) and isinstance(right, dict):
        return _compare(name, sorted(cast("dict[str, object]", left).items(), key=repr),
                        sorted(cast("dict[str, object]", right).items(), key=repr), tolerance)  # fmt: skip
    return _compare_arrays(name, np.asarray(left), np.asarray(right), tolerance)


def _compare_arrays(name: str, left: Array, right: Array, tolerance: float | None) -> Agreement:
    if left.shape != right.shape or left.dtype != right.dtype:
        described = f"{left.dtype}{list(left.shape)} against {right.dtype}{list(right.shape)}"
        return disagreement(f"output {name}: {described}")
    if left.dtype.kind not in "fc":
        if np.array_equal(left, right):
            return EQUAL
        return disagreement(f"output {name}: {int(np.sum(left != right))} of {left.size} elements differ")
    if not left.size:
        return EQUAL
    return _compare_numbers(name, left, right, relative_tolerance(str(left.dtype), tolerance))


def _compare_numbers(name: str, left: Array, right: Array, relative: float) -> Agreement:
    wide = np.complex128 if left.dtype.kind == "c" else np.float64
    a, b = left.astype(wide), right.astype(wide)
    finite = np.isfinite(a)
    if not np.array_equal(finite, np.isfinite(b)):
        return disagreement(f"output {name}: NaN or infinite in different places")
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return disagreement(f"output {name}: different NaN or infinities")
    if not finite.any():
        return EQUAL
    size = np.abs(a[finite])
    error = np.abs(a[finite] - b[finite])
    scale = size + _ABSOLUTE_SHARE * size.max()
    with np.errstate(divide="ignore"):
        max_rel = float(np.max(np.divide(error, scale, out=np.zeros_like(error), where=error > 0)))
    excess = float(np.divide(max_rel, relative)) if max_rel else 0.0
    why = "" if excess <= 1 else f"output {name}: an element differs by {excess:.3g} times what is allowed"
    return Agreement(excess <= 1, float(error.max()), max_rel, excess, why)


def disagreement(why: str) -> Agreement:
    """Not equal, for a reason that is no number."""
    return Agreement(agrees=False, max_abs_error=np.inf, max_rel_error=np.inf, excess=np.inf, why=why)

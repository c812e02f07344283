"""Contiguous ranges of vertices of equal cost, by prefix sums and binary search (Roc, section 4.4.2)."""

from __future__ import annotations

from typing import cast

import numpy as np

from superopt.errors import InvalidOptionError
from superopt.optimizer.parallel.irregular.features import Integers, Numbers, VertexGraph


def balanced_ranges(costs: Numbers, parts: int) -> Integers:
    """The bounds [parts + 1] of ranges whose costs are as equal as possible: each bound is where the sum of
    the costs before it is nearest to its share, found in O(log V) after sums in O(V). Ranges may be empty:
    where there are more parts than vertices, or one vertex costs more than a share. Raises
    InvalidOptionError for fewer than one part, and for costs that are negative or not finite."""
    if parts < 1:
        raise InvalidOptionError(f"parts: expected at least 1, got {parts}")
    if len(costs) and (not np.isfinite(costs).all() or costs.min() < 0):
        raise InvalidOptionError("costs of vertices: expected numbers of at least 0, got others")
    largest = costs.max(initial=0.0)
    if largest == 0:
        return equal_vertices(len(costs), parts)
    _, exponent = np.frexp(largest)
    sums = np.concatenate([[0.0], np.cumsum(np.ldexp(costs, -exponent))])  # a large sum would be infinite
    shares = sums[-1] * np.arange(1, parts) / parts
    after = cast("Integers", np.searchsorted(sums, shares))
    before: Integers = np.maximum(after - 1, 0)
    nearest: Integers = np.where(shares - sums[before] <= sums[after] - shares, before, after)
    return np.concatenate([[0], nearest, [len(costs)]]).astype(np.int64)


def equal_vertices(vertices: int, parts: int) -> Integers:
    """Ranges with equal numbers of vertices, up to one."""
    if vertices < 0:
        raise InvalidOptionError(f"vertices: expected at least 0, got {vertices}")
    if parts < 1:
        raise InvalidOptionError(f"parts: expected at least 1, got {parts}")
    return np.arange(parts + 1, dtype=np.int64) * vertices // parts


def equal_edges(graph: VertexGraph, parts: int) -> Integers:
    """Ranges whose vertices have nearly equal numbers of neighbours together; of a graph without edges, equal
    numbers of vertices."""
    return balanced_ranges(graph.degrees.astype(np.float64), parts)


__all__ = ["balanced_ranges", "equal_edges", "equal_vertices"]

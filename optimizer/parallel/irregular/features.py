"""Graphs as lists of neighbours, and the features of vertices that costs are linear in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from superopt.errors import InvalidOptionError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

Integers: TypeAlias = "NDArray[np.int64]"
Numbers: TypeAlias = "NDArray[np.float64]"

LANES = 32
"""Threads that load together: the size of a GPU's warp, WS in the dissertation."""

FEATURES = ("vertex", "neighbours", "runs of neighbours", "loads of neighbours", "loads of activations")
"""The five features of table 4.2."""


@dataclass(frozen=True, eq=False)
class VertexGraph:
    """A graph by the neighbours that each vertex gathers: those of vertex v are ``neighbours`` from
    ``offsets[v]`` to ``offsets[v + 1]``, in rising order. Raises InvalidOptionError for arrays that are no
    such graph."""

    offsets: Integers
    neighbours: Integers

    def __post_init__(self) -> None:
        offsets, neighbours = self.offsets, self.neighbours
        if offsets.ndim != 1 or not len(offsets) or offsets[0] != 0 or offsets[-1] != len(neighbours):
            raise InvalidOptionError(
                f"graph: expected offsets from 0 to the number of edges, {len(neighbours)}, got an array of "
                f"shape {list(offsets.shape)}"
            )
        if np.any(np.diff(offsets) < 0):
            raise InvalidOptionError("graph: expected offsets that do not fall, got some that do")
        if len(neighbours) and not 0 <= neighbours.min() <= neighbours.max() < self.vertices:
            raise InvalidOptionError(
                f"graph: expected neighbours from 0 to {self.vertices - 1}, got {neighbours.min()} to "
                f"{neighbours.max()}"
            )

    @staticmethod
    def of_edges(vertices: int, sources: ArrayLike, targets: ArrayLike) -> VertexGraph:
        """The graph in which each target gathers its sources [edges]. Raises InvalidOptionError for arrays of
        different sizes or of other than whole numbers, and for vertices out of range."""
        if vertices < 0:
            raise InvalidOptionError(f"graph: expected at least 0 vertices, got {vertices}")
        sources, targets = _whole("sources", sources), _whole("targets", targets)
        if sources.shape != targets.shape or sources.ndim != 1:
            raise InvalidOptionError(
                f"graph: expected one source and one target for each edge, got arrays of the shapes "
                f"{list(sources.shape)} and {list(targets.shape)}"
            )
        if len(targets) and not 0 <= targets.min() <= targets.max() < vertices:
            raise InvalidOptionError(
                f"graph: expected targets from 0 to {vertices - 1}, got {targets.min()} to {targets.max()}"
            )
        order = np.lexsort((sources, targets))
        counts = np.bincount(targets, minlength=vertices)
        return VertexGraph(np.concatenate([[0], np.cumsum(counts)]), sources[order])

    @property
    def vertices(self) -> int:
        """The number of vertices."""
        return len(self.offsets) - 1

    @property
    def edges(self) -> int:
        """The number of edges."""
        return len(self.neighbours)

    @property
    def degrees(self) -> Integers:
        """The number of neighbours of each vertex."""
        return np.diff(self.offsets)

    def targets(self) -> Integers:
        """The vertex that gathers, for each edge."""
        return np.repeat(np.arange(self.vertices), self.degrees)


def _whole(what: str, given: ArrayLike) -> Integers:
    """The array as whole numbers; an empty one has none of another kind."""
    array = np.asarray(given)
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise InvalidOptionError(f"graph: {what}: expected whole numbers, got {array.dtype}")
    return array.astype(np.int64)


def features(graph: VertexGraph, width: int) -> Numbers:
    """The features of each vertex [vertices, 5] for a layer whose input has ``width`` numbers per vertex
    (table 4.2): 1; the number of neighbours; the number of runs of consecutive neighbours; the sums over
    runs of c neighbours of ceil(c / 32), and of ceil(c width / 32)."""
    first, lengths = _runs(graph)
    of_vertex = graph.targets()[first]
    found = np.ones((graph.vertices, len(FEATURES)))
    found[:, 1] = graph.degrees
    found[:, 2] = np.bincount(of_vertex, minlength=graph.vertices)
    for column, numbers in ((3, lengths), (4, lengths * width)):
        loads = -(-numbers // LANES)
        found[:, column] = np.bincount(of_vertex, weights=loads, minlength=graph.vertices)
    return found


def _runs(graph: VertexGraph) -> tuple[Integers, Integers]:
    """The edges at which runs of consecutive neighbours begin, and the lengths of these runs."""
    if not graph.edges:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    begins = np.ones(graph.edges, np.bool_)
    begins[1:] = np.diff(graph.neighbours) != 1
    starts = graph.offsets[:-1]
    begins[starts[starts < graph.edges]] = True
    first = np.flatnonzero(begins)
    return first, np.diff(np.append(first, graph.edges))


__all__ = ["FEATURES", "LANES", "Integers", "Numbers", "VertexGraph", "features"]

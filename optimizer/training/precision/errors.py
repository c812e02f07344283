"""Predicted error of the loss and of gradients from rounding at each node, from one reverse pass for each.

Rounding a value v to a format changes a result by adjoint * v * error to first order, and |error| is at most
the unit roundoff. Errors of different elements are taken as independent, so that their squares add up. One
reverse pass serves all gradients: it starts from random signs, and the expectation of the squared adjoints is
then the sum of the squared derivatives of all elements of the gradients (Hutchinson's estimator).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from superopt.domains import Array
from superopt.equations.adjoints import Adjoint
from superopt.errors import InvalidOptionError, UnsupportedError
from superopt.ir.graph import Graph, Input, NodeId, Value
from superopt.ir.types import TensorType
from superopt.onnx_io.protos import dtype_of
from superopt.ops.filled import Full
from superopt.ops.shape import Reshape
from superopt.optimizer.training.gradients.reverse import NoGradientError, differentiate
from superopt.optimizer.training.precision.casts import Edge, Rounding
from superopt.optimizer.training.precision.formats import NumberFormat
from superopt.optimizer.training.precision.scaling import fitting_scale
from superopt.optimizer.training.precision.subject import Subject
from superopt.optimizer.training.trial_batches import Feeds

_SIGNS = "superopt/signs/"
"""Inputs with random signs, by parameter."""

_HEADROOM = 8.0
"""Scaled numbers are below the largest one of the format by this factor in the first call."""

_UNKNOWN = (math.inf, math.inf, math.inf, math.inf)

_MOST_STOPS = 64
"""The largest number of nodes without a gradient in a step that is analysed."""


@dataclass(frozen=True, slots=True)
class PointError:
    """The error from rounding one value, as shares of the loss and of the norm of all gradients: expected
    squares, and the largest possible error of the loss to first order. ``largest`` is the largest element,
    ``is_scaled`` whether the loss scale multiplies it."""

    loss: float = 0.0
    gradients: float = 0.0
    bound: float = 0.0
    largest: float = 0.0
    is_scaled: bool = False


@dataclass(frozen=True)
class PredictedErrors:
    """The errors from rounding results of nodes, and operands of single nodes. ``missing`` are parameters
    whose gradients are left out, since they depend on nodes without a gradient. ``loss_scale`` is the scale
    that makes numbers of the backward pass as large as the format allows, with room to grow; 1 without
    one."""

    results: Mapping[Value, PointError]
    operands: Mapping[Edge, PointError]
    missing: tuple[str, ...]
    loss_scale: float


def predict_errors(
    subject: Subject,
    candidates: Iterable[NodeId],
    number_format: NumberFormat,
    adjoints: Sequence[Adjoint],
) -> PredictedErrors:
    """The errors of rounding operands and results of candidates, the mean over the subject's samples. Raises
    RuntimeRefusedError where the step does not run, UnsupportedError where it cannot be analysed, and
    InvalidOptionError where its loss or gradients are not finite."""
    analysis = _Analysis.of(_Marked.of(subject, candidates), adjoints)
    opened = subject.opened(analysis.graph, analysis.values)
    random = np.random.default_rng(0)
    totals = np.zeros((len(analysis.points), 4))
    scale = 0.0
    for feeds in subject.samples:
        found = opened.run({**feeds, **analysis.signs(random)})
        loss = abs(float(found[subject.loss].reshape(())[()])) or 1.0
        norm = sum(float(np.sum(found[v].astype(np.float64) ** 2)) for v in analysis.gradients.values())
        if not math.isfinite(loss + norm):
            raise InvalidOptionError(
                "error budget: expected a finite loss and finite gradients in float32 on all batches, got "
                f"{loss:g} for the loss and {math.sqrt(norm):g} for the norm of the gradients"
            )
        scale = scale or subject.fixed_scale or analysis.fitting_scale(found, number_format)
        for total, point in zip(totals, analysis.points, strict=True):
            by_loss, by_gradients, bound, largest = point.measured(found, number_format, scale)
            total[:3] += np.array([by_loss / loss**2, by_gradients / (norm or 1.0), bound / loss])
            total[3] = max(total[3], largest)
    totals[:, :3] /= len(subject.samples)
    results: dict[Value, PointError] = {}
    operands: dict[Edge, PointError] = {}
    for point, row in zip(analysis.points, totals.tolist(), strict=True):
        error = PointError(*row, is_scaled=point.is_scaled)
        if point.edge is None:
            results[point.value] = error
        else:
            operands[point.edge] = error
    missing = tuple(name for name in subject.gradients if name not in analysis.gradients)
    return PredictedErrors(results, operands, missing, scale)


@dataclass(frozen=True)
class _Marked:
    """The subject's graph with a node on every edge to a candidate that may be rounded, so that the value
    there has an adjoint of its own."""

    subject: Subject
    graph: Graph
    results: tuple[Value, ...]
    edges: Mapping[Edge, Value]

    @staticmethod
    def of(subject: Subject, candidates: Iterable[NodeId]) -> _Marked:
        graph = subject.graph
        editor, rounding = graph.edit(), Rounding(graph)
        results: list[Value] = []
        edges: dict[Edge, Value] = {}
        for node_id in sorted(candidates):
            node = graph[node_id]
            marks: dict[Value, Value] = {}
            for value in rounding.operands(node):
                type_ = graph.type_of(value)
                assert isinstance(type_, TensorType), "operands that are rounded are tensors"
                marks[value] = edges[node_id, value] = editor.add(Reshape(type_.shape), (value,)).value
            editor.set_inputs_of(node_id, tuple(marks.get(value, value) for value in node.inputs))
            if rounding.rounds_results(node):
                results.extend(node.values)
        return _Marked(subject, editor.build(), tuple(results), edges)

    @property
    def points(self) -> tuple[Value, ...]:
        """The values that may be rounded."""
        return (*self.results, *self.edges.values())


@dataclass(frozen=True, slots=True)
class _Point:
    """A value that may be rounded, and its adjoints with respect to the loss and to random combinations of
    the gradients; None where it does not affect them."""

    value: Value
    edge: Edge | None
    loss: Value | None
    gradients: Value | None
    is_scaled: bool

    def measured(
        self, found: Mapping[Value, Array], number_format: NumberFormat, scale: float
    ) -> tuple[float, float, float, float]:
        """Expected squared error of the loss and of the gradients, bound of the loss's error, largest
        element. Infinite where numbers overflow, which tells nothing about the error."""
        values = found[self.value]
        with np.errstate(over="ignore", invalid="ignore"):
            variances = number_format.variances(values, scale if self.is_scaled else 1.0)
            by_loss = _squares(found, self.loss, variances)
            by_gradients = _squares(found, self.gradients, variances)
            bound = 0.0
            if self.loss is not None:
                products = np.abs(found[self.loss].astype(np.float64) * values)
                bound = number_format.unit * float(np.sum(products))
        errors = (by_loss, by_gradients, bound, _largest(values))
        return errors if all(map(math.isfinite, errors)) else _UNKNOWN


def _largest(values: Array) -> float:
    return float(np.max(np.abs(values), initial=0.0))


def _squares(found: Mapping[Value, Array], adjoint: Value | None, variances: Array) -> float:
    if adjoint is None:
        return 0.0
    return float(np.sum(found[adjoint].astype(np.float64) ** 2 * variances))


@dataclass(frozen=True)
class _Analysis:
    """The marked graph with both reverse passes."""

    graph: Graph
    points: tuple[_Point, ...]
    loss: Value
    gradients: Mapping[str, Value]
    seeds: Mapping[str, TensorType]

    @staticmethod
    def of(marked: _Marked, adjoints: Sequence[Adjoint]) -> _Analysis:
        subject = marked.subject
        editor = marked.graph.edit()
        one = editor.add(Full(1, ())).value
        first = _reverse(editor.build(), marked.points, lambda _: {subject.loss: one}, adjoints)
        editor = first.graph.edit()
        signs: dict[str, Value] = {}
        seeds: dict[str, TensorType] = {}
        for name, value in subject.gradients.items():
            type_ = editor.type_of(value)
            assert isinstance(type_, TensorType), "gradients are tensors"
            seeds[name] = type_
            signs[name] = editor.add(Input(_SIGNS + name, type_)).value
        graph = editor.build()

        def reached(stops: frozenset[NodeId]) -> Mapping[str, Value]:
            behind = _downstream(graph, stops)
            return {name: value for name, value in subject.gradients.items() if value.node not in behind}

        second = _reverse(
            graph,
            marked.points,
            lambda stops: {value: signs[name] for name, value in reached(stops).items()},
            adjoints,
        )
        gradients = reached(second.stops)
        edges = {value: edge for edge, value in marked.edges.items()}
        scaled = _downstream(marked.graph, () if subject.scale is None else (subject.scale.node,))
        points = tuple(
            _Point(value, edges.get(value), first.of.get(value), second.of.get(value), value.node in scaled)
            for value in marked.points
        )
        return _Analysis(
            second.graph,
            points,
            subject.loss,
            gradients,
            {_SIGNS + name: type_ for name, type_ in seeds.items()},
        )

    @property
    def values(self) -> tuple[Value, ...]:
        """Everything that is computed."""
        found = [self.loss, *self.gradients.values()]
        for point in self.points:
            found.append(point.value)
            found.extend(value for value in (point.loss, point.gradients) if value is not None)
        return tuple(found)

    def fitting_scale(self, found: Mapping[Value, Array], number_format: NumberFormat) -> float:
        """The loss scale for numbers as large as these; 1 where nothing is scaled."""
        largest = [_largest(found[point.value]) for point in self.points if point.is_scaled]
        return fitting_scale(max(largest), number_format.largest / _HEADROOM) if largest else 1.0

    def signs(self, random: np.random.Generator) -> Feeds:
        """Random signs for every element of every gradient."""
        return {
            label: (2 * random.integers(0, 2, [*map(_size, type_.shape)]) - 1).astype(dtype_of(type_.element))
            for label, type_ in self.seeds.items()
        }


@dataclass(frozen=True)
class _Pass:
    """A reverse pass through all nodes but the ``stops``, which have no gradient."""

    graph: Graph
    of: Mapping[Value, Value]
    stops: frozenset[NodeId]


def _reverse(
    graph: Graph,
    wrt: tuple[Value, ...],
    cotangents: Callable[[frozenset[NodeId]], Mapping[Value, Value]],
    adjoints: Sequence[Adjoint],
) -> _Pass:
    """A reverse pass from the cotangents that remain with these stops."""
    stops: frozenset[NodeId] = frozenset()
    while len(stops) <= _MOST_STOPS:
        try:
            found = differentiate(graph, wrt, cotangents(stops), adjoints, stops=stops)
        except NoGradientError as error:
            stops |= {error.node}
        else:
            return _Pass(found.graph, found.of, stops)
    raise UnsupportedError(f"mixed precision: more than {_MOST_STOPS} nodes have no gradient")


def _downstream(graph: Graph, sources: Iterable[NodeId]) -> frozenset[NodeId]:
    """The sources, and every node that depends on one."""
    found = set(sources)
    for node_id in graph.order if found else ():
        if any(value.node in found for value in graph[node_id].inputs):
            found.add(node_id)
    return frozenset(found)


def _size(size: object) -> int:
    if not isinstance(size, int):
        raise UnsupportedError(f"mixed precision: expected gradients of known sizes, got a size of {size}")
    return size


__all__ = ["PointError", "PredictedErrors", "predict_errors"]

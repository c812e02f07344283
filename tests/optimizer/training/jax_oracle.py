"""Gradients and losses by JAX, to compare training steps with: lifted graphs are evaluated in JAX's arrays
and differentiated by ``jax.vjp``, with no use of the project's own adjoints.

Values that an ONNX model holds as integers or truth values are computed in floating point as well. Where
derivatives are ambiguous the oracle takes those of ONNX Runtime and PyTorch: the first of equal elements of a
maximum over an axis or window, and of ``maximum(x, y)`` the second operand, so that relu has none at 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import onnx

from superopt.domains.floats import quotients
from superopt.errors import UnsupportedError
from superopt.ir.graph import Graph, Input, NodeId, Weight
from superopt.onnx_io import lift, load_model
from superopt.optimizer.parallel.execution.jax_domain import JaxDomain
from superopt.rewriting.evaluation import evaluate_graph

Array: TypeAlias = "npt.NDArray[Any]"
Precision: TypeAlias = Literal["float32", "float64"]


@dataclass(frozen=True)
class Pullback:
    """The outputs of a graph, and the gradients of their product with the cotangents, by label."""

    outputs: tuple[Array, ...]
    gradients: Mapping[str, Array]


@dataclass(frozen=True)
class LossGradients:
    """A mean cross-entropy and its gradients, by the names of initialisers."""

    loss: float
    gradients: Mapping[str, Array]


def pullback(
    graph: Graph,
    arrays: Mapping[str, Array],
    wrt: Iterable[str],
    cotangents: Sequence[Array | None],
    precision: Precision = "float64",
) -> Pullback:
    """Differentiates a graph of numeric shapes. ``arrays`` has the content of every input and weight that
    outputs depend on, ``wrt`` names some of them, and ``cotangents`` has an array of the shape of each
    output, or None for zeros. Raises UnsupportedError where an output depends on an opaque node or on a
    label without an array."""
    with _computing(precision):
        given = {label: jnp.asarray(array, precision) for label, array in arrays.items()}
        chosen = {label: given.pop(label) for label in wrt}

        def pulled(chosen: Parameters, given: Parameters, seeds: Sequence[Any]) -> tuple[Any, Parameters]:
            outputs, back = jax.vjp(lambda some: evaluated(graph, {**given, **some}, precision), chosen)
            filled = [
                jnp.zeros_like(output) if seed is None else jnp.asarray(seed, precision)
                for output, seed in zip(outputs, seeds, strict=True)
            ]
            return outputs, *back(tuple(filled))

        outputs, slopes = _compiled(pulled)(chosen, given, tuple(cotangents))
        return Pullback(
            tuple(np.asarray(output) for output in outputs),
            {label: np.asarray(gradient) for label, gradient in slopes.items()},
        )


def gradients(
    model: onnx.ModelProto,
    inputs: Mapping[str, Array],
    labels: Array,
    *,
    class_axis: int = -1,
    precision: Precision = "float64",
) -> LossGradients:
    """The cross-entropy of the first output of a model, and its gradients with respect to all float
    initialisers that it depends on. Raises UnsupportedError as ``pullback`` does."""
    run = _Model(model, class_axis, precision)
    with _computing(precision):
        batch = {name: jnp.asarray(array, precision) for name, array in inputs.items()}
        step = _compiled(jax.value_and_grad(run.loss))
        loss, found = step(run.parameters(), batch, labels)
        return LossGradients(float(loss), {name: np.asarray(gradient) for name, gradient in found.items()})


Parameters: TypeAlias = "dict[str, Any]"
Update: TypeAlias = "Callable[[Parameters, Parameters, Any, int], tuple[Parameters, Any]]"
"""(parameters, gradients, state, number of the step from 1) -> (new parameters, new state); the first state
is None."""


def losses(
    model: onnx.ModelProto,
    batches: Iterable[tuple[Mapping[str, Array], Array]],
    update: Update,
    *,
    class_axis: int = -1,
    precision: Precision = "float64",
) -> tuple[list[float], dict[str, Array]]:
    """Trains all float initialisers on (inputs, labels), one step each: the cross-entropy before each step,
    and the parameters after the last one. All batches have the same shapes."""
    run = _Model(model, class_axis, precision)
    with _computing(precision):
        step = _compiled(jax.value_and_grad(run.loss))
        parameters, state, found = run.parameters(), None, list[float]()
        for number, (inputs, labels) in enumerate(batches, start=1):
            batch = {name: jnp.asarray(array, precision) for name, array in inputs.items()}
            loss, slopes = step(parameters, batch, labels)
            parameters, state = update(parameters, slopes, state, number)
            found.append(float(loss))
        return found, {name: np.asarray(array) for name, array in parameters.items()}


def sgd(rate: float, momentum: float = 0.0) -> Update:
    """w - rate * v with v = momentum * v + gradient."""

    def update(old: Parameters, slopes: Parameters, state: Any, number: int) -> tuple[Parameters, Any]:
        del number
        previous = state or dict.fromkeys(old, 0.0)
        moments = {name: momentum * previous[name] + slopes[name] for name in old}
        return {name: old[name] - rate * moments[name] for name in old}, moments

    return update


def adam(
    rate: float, betas: tuple[float, float] = (0.9, 0.999), epsilon: float = 1e-8, decay: float = 0.0
) -> Update:
    """Kingma and Ba 2015, algorithm 1; ``decay`` is decoupled, as AdamW has it (Loshchilov and Hutter
    2019)."""

    def update(old: Parameters, slopes: Parameters, state: Any, number: int) -> tuple[Parameters, Any]:
        first, second = state or (dict.fromkeys(old, 0.0), dict.fromkeys(old, 0.0))
        first = {name: betas[0] * first[name] + (1 - betas[0]) * slopes[name] for name in old}
        second = {name: betas[1] * second[name] + (1 - betas[1]) * slopes[name] ** 2 for name in old}
        scale = rate / (1 - betas[0] ** number)

        def stepped(name: str) -> Any:
            root = jnp.sqrt(second[name] / (1 - betas[1] ** number))
            return old[name] * (1 - rate * decay) - scale * first[name] / (root + epsilon)

        return {name: stepped(name) for name in old}, (first, second)

    return update


def cross_entropy(logits: Any, labels: Array, class_axis: int) -> Any:
    """The mean of -log softmax at the labels, over all but the class axis."""
    logs = jnp.moveaxis(jax.nn.log_softmax(logits, axis=class_axis), class_axis, -1)
    return -jnp.take_along_axis(logs, jnp.asarray(labels)[..., None], axis=-1).mean()


def evaluated(graph: Graph, arrays: Mapping[str, Any], precision: Precision) -> tuple[Any, ...]:
    """The outputs of a graph for JAX arrays by label; can be traced. Raises UnsupportedError as ``pullback``
    does."""
    stacked = {
        node.id: arrays[node.operator.label][None]
        for node in graph
        if isinstance(node.operator, (Input, Weight)) and node.operator.label in arrays
    }
    outputs = evaluate_graph(graph, OracleDomain(precision), _only_needed(graph, stacked))
    shapes = [_shape(graph, index) for index in range(len(outputs))]
    return tuple(jnp.broadcast_to(output[0], shape) for output, shape in zip(outputs, shapes, strict=True))


class OracleDomain(JaxDomain):
    """JAX arrays of one precision, with derivatives at ties, and with lookups and maxima in one step."""

    def __init__(self, precision: Precision) -> None:
        super().__init__(jax)
        self._precision = precision

    def constant(self, numerators: npt.NDArray[np.int64], denominators: npt.NDArray[np.int64]) -> Any:
        """The quotients, rounded once."""
        return jnp.asarray(quotients(numerators, denominators), self._precision)[None]

    def maximum(self, left: Any, right: Any) -> Any:
        """The larger one; the second of two equal ones; NaN where one is."""
        left, right = jnp.broadcast_arrays(*_of_equal_rank(left, right))
        return jnp.where((left > right) | jnp.isnan(left), left, right)

    def max_along(self, array: Any, axis: int) -> Any:
        """The first of the largest elements."""
        places = jnp.expand_dims(jnp.argmax(array, axis=axis + 1), axis + 1)
        return jnp.take_along_axis(array, places, axis=axis + 1).squeeze(axis + 1)

    def rows(self, table: Any, indices: Any) -> Any:
        """The rows, as ``Domain.rows`` finds them."""
        count = table.shape[1]
        whole = jnp.clip(jnp.ceil(indices - 0.5), -count, count - 1).astype(int)
        stack = max(table.shape[0], indices.shape[0])
        tables = jnp.broadcast_to(table, (stack, *table.shape[1:]))
        places = jnp.broadcast_to(whole, (stack, *whole.shape[1:]))
        return jax.vmap(lambda rows, at: rows[at])(tables, places)

    def apply(self, function: str, array: Any, parameters: tuple[Fraction, ...] = ()) -> Any:
        """``log`` as well."""
        return jnp.log(array) if function == "log" else super().apply(function, array, parameters)


class _Model:
    """A lifted model whose float initialisers are its parameters."""

    def __init__(self, model: onnx.ModelProto, class_axis: int, precision: Precision) -> None:
        lifted = lift(load_model(model.SerializeToString()))
        self._graph = lifted.graph
        self._class_axis = class_axis
        self._precision: Precision = precision
        named = {tensor.name for tensor in model.graph.initializer}
        self._weights = {
            label: np.asarray(lifted.weight(label))
            for label in {n.operator.label for n in lifted.graph if isinstance(n.operator, Weight)}
        }
        self._trained = {
            label for label, array in self._weights.items() if label in named and array.dtype.kind == "f"
        }

    def parameters(self) -> Parameters:
        """The initial values, as JAX arrays."""
        return {label: jnp.asarray(self._weights[label], self._precision) for label in sorted(self._trained)}

    def loss(self, parameters: Parameters, batch: Mapping[str, Any], labels: Array) -> Any:
        """The cross-entropy of the first output; can be traced."""
        fixed = {
            label: jnp.asarray(array, self._precision)
            for label, array in self._weights.items()
            if label not in self._trained
        }
        outputs = evaluated(self._graph, {**fixed, **batch, **parameters}, self._precision)
        return cross_entropy(outputs[0], labels, self._class_axis)


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as one program, compiled with little optimisation: it runs a few times only."""
    options = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
    return jax.jit(function, compiler_options=options)


@contextmanager
def _computing(precision: Precision) -> Iterator[None]:
    """Products in full precision; float64 only where asked for, since JAX otherwise has none."""
    with jax.enable_x64(precision == "float64"), jax.default_matmul_precision("highest"):
        yield


def _only_needed(graph: Graph, arrays: Mapping[NodeId, Any]) -> Mapping[NodeId, Any]:
    """The arrays of nodes that outputs depend on. Raises UnsupportedError where one has none."""
    needed: set[NodeId] = set()
    waiting = [value.node for value in graph.outputs]
    while waiting:
        node = waiting.pop()
        if node not in needed:
            needed.add(node)
            waiting += [value.node for value in graph[node].inputs]
    for node in needed:
        operator = graph[node].operator
        if isinstance(operator, (Input, Weight)) and node not in arrays:
            raise UnsupportedError(f"{operator.name} {operator.label!r}: expected an array, got none")
    return {node: array for node, array in arrays.items() if node in needed}


def _of_equal_rank(left: Any, right: Any) -> tuple[Any, Any]:
    """Stacked arrays with axes of length 1 behind the stack axis where one has fewer."""
    rank = max(left.ndim, right.ndim)
    return tuple(
        array.reshape(array.shape[0], *(1,) * (rank - array.ndim), *array.shape[1:])
        for array in (left, right)
    )


def _shape(graph: Graph, index: int) -> tuple[int, ...]:
    type_ = graph.type_of(graph.outputs[index])
    return tuple(int(size) for size in type_.shape)

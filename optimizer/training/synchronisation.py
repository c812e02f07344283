"""Delay and compress the gradients of a training step, as some synchronisation strategies ask for.

What is trained changes: the step that is made is another one, with states of its own, and never equal to the
given one. A gradient that is delayed by ``n`` steps is applied that much later, which is what a replica does
at worst that runs ahead of the others by at most ``n`` steps (stale synchronous parallel, Ho et al. 2013; for
one step PipeDream's 2BW). A compressed gradient is rounded to half precision before devices add theirs
(Horovod's compression); with feedback, what rounding left out is added to the next gradient (Karimireddy et
al. 2019).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np

from superopt.domains import Array
from superopt.ir.graph import Graph, GraphEditor, NodeId, Value
from superopt.ir.types import ElementType, TensorType
from superopt.onnx_io.protos import dtype_of
from superopt.ops.elementwise.arithmetic import Add, Subtract
from superopt.ops.shape import Concat, Split
from superopt.optimizer.training.builder import NewState, StepBuilder
from superopt.optimizer.training.description import Role

COMPRESSED = ElementType.FLOAT16
"""The element type of compressed gradients."""


@dataclass(frozen=True, slots=True)
class GradientChange:
    """How the ``gradient`` of a parameter is changed for its ``readers``: delayed by so many steps, or
    compressed, with feedback or without."""

    parameter: str
    gradient: Value
    readers: Collection[NodeId]
    delay: int = 0
    compressed: bool = False
    feedback: bool = False


@dataclass(frozen=True)
class ChangedGradients:
    """A graph with changed gradients, and its new states with their next values."""

    graph: Graph
    states: tuple[NewState, ...]


def with_changed_gradients(graph: Graph, changes: Iterable[GradientChange]) -> ChangedGradients:
    """The graph in which readers of gradients read what the changes make of these. Raises InvalidModelError
    for a name of a new state that is taken."""
    editor = graph.edit()
    builder = StepBuilder(editor)
    for change in changes:
        value = change.gradient
        if change.compressed:
            value = _compressed(builder, change)
        if change.delay:
            value = _delayed(editor, builder, change)
        editor.redirect({change.gradient: value}, change.readers)
    return ChangedGradients(editor.build(), builder.states)


def _compressed(builder: StepBuilder, change: GradientChange) -> Value:
    type_ = builder.type(change.gradient)
    if not change.feedback:
        return _rounded(builder, change.gradient, type_.element)
    name = f"{change.parameter}.residual"
    residual = builder.state(name, Role.RESIDUAL, _zeros(type_), type_, change.parameter)
    corrected = builder.apply(Add(), change.gradient, residual)
    restored = _rounded(builder, corrected, type_.element)
    builder.hand_on(name, builder.apply(Subtract(), corrected, restored))
    return restored


def _rounded(builder: StepBuilder, value: Value, element: ElementType) -> Value:
    return builder.converted(builder.converted(value, COMPRESSED), element)


def _delayed(editor: GraphEditor, builder: StepBuilder, change: GradientChange) -> Value:
    """The oldest of the gradients that are waiting, which are rows of one state."""
    type_ = builder.type(change.gradient)
    count, shape = change.delay, type_.shape
    queue = TensorType(type_.element, (count, *shape))
    name = f"{change.parameter}.delayed"
    waiting = builder.state(name, Role.DELAYED, _zeros(queue), queue, change.parameter)
    newest = builder.reshaped(change.gradient, (1, *shape))
    if count == 1:
        builder.hand_on(name, newest)
        return builder.reshaped(waiting, shape)
    oldest, others = editor.add(Split(0, (1, count - 1)), (waiting,)).values
    builder.hand_on(name, builder.apply(Concat(0), others, newest))
    return builder.reshaped(oldest, shape)


def _zeros(type_: TensorType) -> Array:
    sizes = [size for size in type_.shape if isinstance(size, int)]
    return np.zeros(sizes, dtype_of(type_.element))


__all__ = ["COMPRESSED", "ChangedGradients", "GradientChange", "with_changed_gradients"]

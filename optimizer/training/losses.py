"""Losses as nodes of a graph: cross-entropy, mean square and mean absolute error, an output, cotangents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from superopt.domains import Array
from superopt.errors import InvalidModelError, InvalidOptionError
from superopt.ir.dimensions import Dimension
from superopt.ir.graph import Graph, GraphEditor, Value
from superopt.ir.types import ElementType, TensorType
from superopt.ops.elementwise.activation import LogSoftmax, Softmax
from superopt.ops.elementwise.arithmetic import Add, Divide, Multiply, Subtract
from superopt.ops.elementwise.order import Absolute, Maximum
from superopt.ops.elementwise.selection import Equal, LogicalNot, Select
from superopt.ops.reduction import ReduceSum
from superopt.optimizer.training.builder import SCALAR, StepBuilder
from superopt.optimizer.training.description import Labels
from superopt.step_options import COTANGENTS, CROSS_ENTROPY, MEAN_ABSOLUTE, MEAN_SQUARE, LossSettings, decimal

LABELS, TARGETS = "labels", "targets"
"""The inputs with class numbers (int64), and with numbers of the prediction's type and shape."""

_OF_SOFTMAX = "the prediction is a softmax over the classes, so the cross-entropy is taken of its operand"

_ONE_CLASS = (
    "the cross-entropy is always 0, since there is one class on axis {axis} of {type}: choose another --loss "
    "or --class-axis"
)

_LOW = frozenset((ElementType.FLOAT16, ElementType.BFLOAT16))


@dataclass(frozen=True)
class AddedLoss:
    """A loss: its 0-d value (float32, or float64 if the prediction is), the names of the inputs that came
    with it, the content of the constants that did, by label, what its labels may be, if it has any, and
    sentences for the user."""

    value: Value
    inputs: tuple[str, ...]
    weights: Mapping[str, Array]
    labels: Labels | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class AddedCotangents:
    """For every output that is a floating point tensor, by name, the input that holds its cotangent."""

    seeds: Mapping[str, Value]
    inputs: tuple[str, ...]


def prediction_of(graph: Graph, outputs: Mapping[str, Value], loss: str, wanted: str | None) -> Value | None:
    """The output that a loss is computed of: the one that is the loss, the ``wanted`` one, else the first
    floating point one; None without one. Raises InvalidOptionError for a name that no output has, and for a
    ``wanted`` output beside one that is the loss."""
    if loss not in _LOSSES:
        if loss not in outputs:
            known = ", ".join((*_LOSSES, COTANGENTS))
            raise InvalidOptionError(
                f"loss: expected {known}, or an output of the model ({', '.join(outputs)}); got {loss}"
            )
        if wanted not in (None, loss):
            raise InvalidOptionError(
                f"prediction: expected none, since the loss is the output {loss}; got {wanted}"
            )
        return outputs[loss]
    if wanted is not None:
        if wanted not in outputs:
            raise InvalidOptionError(
                f"prediction: expected an output of the model, {', '.join(outputs)}; got {wanted}"
            )
        return outputs[wanted]
    types = ((value, graph.type_of(value)) for value in outputs.values())
    return next((v for v, type_ in types if isinstance(type_, TensorType) and type_.element.is_float), None)


def add_loss(editor: GraphEditor, prediction: Value, loss: LossSettings) -> AddedLoss:
    """The loss of a prediction, a floating point tensor.

    - ``cross-entropy``: the prediction holds logits, or is their softmax, with the classes along an axis of
      known size. Labels are
      the input ``labels`` (int64, without that axis), or ``targets`` (probabilities, of the prediction's
      type). It is the mean over all positions but those whose label is ``ignore_index``; 0 if that leaves
      none. A label that is neither a class nor ``ignore_index`` adds nothing to the sum, but counts in the
      mean: the step does not check ranges, training does.
    - ``mse``, ``l1``: the mean over all elements; the input ``targets`` has the prediction's type.
    - The name of an output: the prediction, which must have one element.

    Numbers of less than 32 bits are converted to float32 first. Raises InvalidModelError for a prediction
    that does not fit, and InvalidOptionError for an option that does not fit the prediction.
    """
    builder = StepBuilder(editor)
    type_ = builder.type(prediction)
    if not type_.element.is_float:
        raise InvalidModelError(f"loss {loss.loss}: expected a floating point prediction, got {type_}")
    if loss.loss == COTANGENTS:
        raise InvalidOptionError("loss: expected a loss with a value, got cotangents")
    notes: tuple[str, ...] = ()
    if loss.loss == CROSS_ENTROPY:
        axis = _class_axis(type_, loss)
        logits = _logits(builder, prediction, axis)
        notes = (_OF_SOFTMAX,) if logits != prediction else ()
        if type_.shape[axis] == 1:
            notes = (*notes, _ONE_CLASS.format(axis=axis, type=type_))
        prediction = logits
    value = _LOSSES.get(loss.loss, _given)(builder, prediction, loss)
    labels = None
    if LABELS in builder.inputs:
        classes = _class_count(type_, _class_axis(type_, loss))
        labels = Labels(LABELS, classes, loss.ignore_index)
    return AddedLoss(value, builder.inputs, builder.weights, labels, notes)


def add_cotangents(editor: GraphEditor, outputs: Mapping[str, Value]) -> AddedCotangents:
    """An input ``NAME.cotangent`` for every output that is a floating point tensor, of its type. Raises
    InvalidModelError if there is none."""
    builder = StepBuilder(editor)
    seeds: dict[str, Value] = {}
    for name, output in outputs.items():
        type_ = editor.type_of(output)
        if isinstance(type_, TensorType) and type_.element.is_float:
            seeds[name] = builder.input(f"{name}.cotangent", type_)
    if not seeds:
        raise InvalidModelError(
            "loss cotangents: expected an output that is a floating point tensor, got none"
        )
    return AddedCotangents(seeds, builder.inputs)


def _given(builder: StepBuilder, prediction: Value, loss: LossSettings) -> Value:
    type_ = builder.type(prediction)
    if type_.elements != 1:
        raise InvalidOptionError(
            f"loss: expected {CROSS_ENTROPY}, {MEAN_SQUARE}, {MEAN_ABSOLUTE}, {COTANGENTS} or the name of an "
            f"output with one element, got {loss.loss!r}, which is {type_}"
        )
    return builder.reshaped(_precise(builder, prediction), SCALAR)


def _mean_square(builder: StepBuilder, prediction: Value, loss: LossSettings) -> Value:
    del loss
    error = _error(builder, prediction)
    return builder.mean(builder.apply(Multiply(), error, error))


def _mean_absolute(builder: StepBuilder, prediction: Value, loss: LossSettings) -> Value:
    del loss
    return builder.mean(builder.apply(Absolute(), _error(builder, prediction)))


def _error(builder: StepBuilder, prediction: Value) -> Value:
    targets = builder.input(TARGETS, builder.type(prediction))
    return builder.apply(Subtract(), _precise(builder, prediction), _precise(builder, targets))


def _cross_entropy(builder: StepBuilder, prediction: Value, loss: LossSettings) -> Value:
    axis = _class_axis(builder.type(prediction), loss)
    logarithms = builder.apply(LogSoftmax(axis), _precise(builder, prediction))
    if loss.label_kind == "classes":
        return _by_classes(builder, logarithms, axis, loss)
    targets = _precise(builder, builder.input(TARGETS, builder.type(prediction)))
    return _by_probabilities(builder, logarithms, targets, axis, decimal(loss.label_smoothing))


def _logits(builder: StepBuilder, prediction: Value, axis: int) -> Value:
    """What the prediction is the softmax of along the axis of the classes, otherwise the prediction."""
    node = builder.node(prediction)
    is_softmax = type(node.operator) is Softmax and node.operator.axis % builder.type(prediction).rank == axis
    return node.inputs[0] if is_softmax else prediction


def _by_probabilities(
    builder: StepBuilder, logarithms: Value, targets: Value, axis: int, smoothing: Fraction
) -> Value:
    classes = _class_count(builder.type(logarithms), axis)
    spread = builder.shifted(builder.scaled(targets, 1 - smoothing), smoothing / classes)
    products = builder.apply(Multiply(), spread, logarithms)
    return builder.scaled(builder.mean(builder.apply(ReduceSum(axis), products)), -1)


def _by_classes(builder: StepBuilder, logarithms: Value, axis: int, loss: LossSettings) -> Value:
    """The mean over the positions that count: their sum over their number, which is data like the labels."""
    smoothing = decimal(loss.label_smoothing)
    shape = builder.type(logarithms).shape
    labels = builder.input(LABELS, TensorType(ElementType.INT64, (*shape[:axis], *shape[axis + 1 :])))
    labels = builder.reshaped(labels, (*shape[:axis], 1, *shape[axis + 1 :]))
    picked = builder.scaled(_of_label(builder, logarithms, labels, axis), 1 - smoothing)
    if smoothing:
        share = smoothing / _class_count(builder.type(logarithms), axis)
        everywhere = builder.scaled(builder.apply(ReduceSum(axis), logarithms), share)
        picked = builder.apply(Add(), picked, everywhere)
    ignored = builder.apply(Equal(), labels, builder.filled(loss.ignore_index, labels))
    counted = builder.apply(LogicalNot(), ignored)
    total = builder.total(builder.apply(Select(), counted, picked, builder.filled(0, picked)))
    count = builder.total(builder.converted(counted, builder.type(total).element))
    divisor = builder.apply(Maximum(), count, builder.filled(1, count))
    return builder.scaled(builder.apply(Divide(), total, divisor), -1)


def _of_label(builder: StepBuilder, values: Value, labels: Value, axis: int) -> Value:
    """The value of the class that is the label, along the axis, which is kept with size 1; else 0."""
    shape = builder.type(values).shape
    classes = _class_count(builder.type(values), axis)
    column = (classes, *(1 for _ in shape[axis + 1 :]))
    numbers = builder.constant(
        f"superopt/classes/{'x'.join(map(str, column))}",
        np.arange(classes).reshape(column),
        ElementType.INT64,
    )
    is_label = builder.apply(Equal(), builder.repeated(labels, shape), builder.repeated(numbers, shape))
    chosen = builder.apply(Select(), is_label, values, builder.filled(0, values))
    return builder.apply(ReduceSum(axis), chosen)


def _class_axis(type_: TensorType, loss: LossSettings) -> int:
    """The axis of the classes, not negative."""
    if type_.rank < 2:
        raise InvalidModelError(f"loss {loss.loss}: expected logits of rank 2 or more, got {type_}")
    own = loss.class_axis
    if own is None:
        return 2 if type_.rank == 3 else 1
    if not -type_.rank <= own < type_.rank:
        raise InvalidOptionError(f"class_axis: expected an axis of {type_}, got {own}")
    return own % type_.rank


def _class_count(type_: TensorType, axis: int) -> int:
    count: Dimension = type_.shape[axis]
    if not isinstance(count, int):
        raise InvalidModelError(
            f"loss {CROSS_ENTROPY}: expected a known number of classes on axis {axis} of {type_}, got {count}"
        )
    return count


def _precise(builder: StepBuilder, value: Value) -> Value:
    """As float32 if it has fewer bits."""
    return builder.converted(value, ElementType.FLOAT) if builder.type(value).element in _LOW else value


_LOSSES: Mapping[str, Callable[[StepBuilder, Value, LossSettings], Value]] = {
    CROSS_ENTROPY: _cross_entropy,
    MEAN_SQUARE: _mean_square,
    MEAN_ABSOLUTE: _mean_absolute,
}

__all__ = ["LABELS", "TARGETS", "AddedCotangents", "AddedLoss", "add_cotangents", "add_loss", "prediction_of"]

"""Graphs of losses and updates, run in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from superopt.domains import Array
from superopt.ir import ElementType, Graph, Input, TensorType
from superopt.ir.dimensions import Dimension, symbol
from superopt.ir.graph import GraphEditor, Value
from superopt.onnx_io import build_model
from superopt.onnx_io.protos import dtype_of
from superopt.optimizer.training.losses import add_loss
from superopt.optimizer.training.updates import AddedUpdates, add_updates
from superopt.step_options import LossSettings, UpdateSettings
from tests.onnx_io.kit import session

Arrays = Mapping[str, Array]
Shape = tuple[int | str, ...]
OPSET = 17


def given(editor: GraphEditor, name: str, shape: Shape, element: ElementType = ElementType.FLOAT) -> Value:
    """An input; sizes that are texts are symbols."""
    sizes: tuple[Dimension, ...] = tuple(symbol(size) if isinstance(size, str) else size for size in shape)
    return editor.add(Input(name, TensorType(element, sizes))).value


def loss_of(
    settings: LossSettings,
    prediction: Array,
    feeds: Arrays,
    shape: Shape | None = None,
    element: ElementType = ElementType.FLOAT,
    opset: int = OPSET,
) -> NDArray[np.generic]:
    """The loss of a prediction, which is declared with that shape."""
    editor = Graph.empty().edit()
    value = given(editor, "prediction", prediction.shape if shape is None else shape, element)
    loss = add_loss(editor, value, settings)
    assert set(loss.inputs) == feeds.keys()
    editor.set_outputs((loss.value,))
    model = build_model(editor.build(), loss.weights, opset)
    (result,) = session(model).run(None, {"prediction": prediction.astype(dtype_of(element)), **feeds})
    return np.asarray(result)


class Trainer:
    """A graph of updates for parameters whose gradients are inputs, run step by step."""

    def __init__(
        self,
        parameters: Arrays,
        settings: UpdateSettings,
        elements: Mapping[str, ElementType] | None = None,
    ) -> None:
        elements = elements or {}
        editor = Graph.empty().edit()
        pairs: dict[str, tuple[Value, Value]] = {}
        for name, array in parameters.items():
            element = elements.get(name, ElementType.FLOAT)
            pairs[name] = (
                given(editor, name, array.shape, element),
                given(editor, f"{name}.gradient", array.shape, element),
            )
        self.added: AddedUpdates = add_updates(editor, pairs, settings)
        new = self.added.new_parameters
        editor.set_outputs((*new.values(), *(state.output for state in self.added.states)))
        self.graph = editor.build()
        self._session = session(build_model(self.graph, self.added.weights, OPSET))
        self._names = (*new, *(state.name for state in self.added.states))
        self.values: dict[str, Array] = {
            name: array.astype(dtype_of(elements.get(name, ElementType.FLOAT)))
            for name, array in parameters.items()
        }
        self.values.update({state.input: state.initial for state in self.added.states})

    def step(self, gradients: Arrays, **inputs: Array) -> None:
        """One call of the step."""
        feeds = {
            f"{name}.gradient": gradient.astype(self.values[name].dtype)
            for name, gradient in gradients.items()
        }
        results = self._session.run(None, {**self.values, **feeds, **inputs})
        self.values = dict(zip(self._names, map(np.asarray, results), strict=True))

    def steps(self, gradients: Iterable[Arrays], **inputs: Array) -> None:
        """Several calls."""
        for one in gradients:
            self.step(one, **inputs)

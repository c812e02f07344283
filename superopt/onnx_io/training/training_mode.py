"""The forward pass of training: dropout, batch normalisation and recurrent layers as deterministic plain
nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from superopt.errors import InvalidModelError
from superopt.ir.types import ValueType
from superopt.onnx_io.changes.raise_opset import raise_opset
from superopt.onnx_io.node_building import NodeBuilder, copy_of, node_label
from superopt.onnx_io.protos import (
    STANDARD_DOMAINS,
    captured_names,
    default_opset,
    names_within,
    nodes_within,
    subgraphs,
)
from superopt.onnx_io.sizes.inference import infer_types
from superopt.onnx_io.training.batch_norm import (
    BatchNormWriter,
    RunningOutputs,
    as_inference_form,
    as_new_form,
    is_batch_norm,
    layer_of,
)
from superopt.onnx_io.training.dropout import (
    DropoutWriter,
    Samples,
    ratio_of,
    stored_constants,
    write_identity,
)
from superopt.onnx_io.training.random_masks import Counters, MaskWriter
from superopt.onnx_io.training.recurrent import RecurrentWriter, is_recurrent
from superopt.onnx_io.training.running_statistics import RunningStatistics, Statistic

_NO_BATCH_NORM = (
    "no BatchNormalization node: an inference export folds them into convolutions, and then there are no "
    "statistics to train"
)

BatchNormMode = Literal["global", "local", "frozen"]
"""Statistics of the whole batch, of the part of it that a device holds, or the running ones. On one device
``global`` and ``local`` are the same."""


@dataclass(frozen=True, slots=True)
class ForwardSettings:
    """How the forward pass of training differs from inference. ``step`` and ``seed`` are the names of int64
    scalar inputs that dropout reads; they are added, with defaults 1 and 0, where the model has none.
    Where ``calls_per_step`` exceeds 1, masks depend on the number of the call, and a further input
    ``microstep``, default 1, counts calls within a step. ``first_sample`` names another one, default 0: how
    many samples of the global batch precede this one. With ``unbiased_statistics`` running variances are
    updated by N / (N - 1) times the variance of the batch, as PyTorch does; ONNX takes that variance."""

    batch_norm: BatchNormMode = "global"
    dropout: Literal["on", "off"] = "on"
    unbiased_statistics: bool = False
    step: str = "step"
    seed: str = "seed"
    calls_per_step: int = 1
    microstep: str = "microstep"
    first_sample: str | None = None


@dataclass(frozen=True, eq=False)
class TrainingForward:
    """A forward pass of training. ``statistics`` are running statistics, overridable initialisers with a next
    value among the outputs; ``uses_seed`` tells whether there are masks, which read seed and step; ``notes``
    are sentences for the user."""

    model: onnx.ModelProto
    statistics: tuple[Statistic, ...]
    uses_seed: bool
    notes: tuple[str, ...]


def in_training_mode(model: onnx.ModelProto, settings: ForwardSettings) -> TrainingForward:
    """The model as a deterministic forward pass of training, at operator set 18 or newer, without Dropout
    and, unless frozen, BatchNormalization nodes; recurrent layers are unrolled where that is possible. The
    model is not changed, nor are weights read.
    Raises InvalidModelError, which names the node, where one cannot be rewritten, is in a subgraph or
    function, or cannot be converted to operator set 18."""
    _require_in_main_graph(model)
    copy = copy_of(model)
    as_new_form(copy.graph, default_opset(copy.opset_import) or 0)
    raise_opset(copy)
    return _Forward(copy, settings, as_inference_form(copy.graph)).run()


def _is_dropout(node: onnx.NodeProto) -> bool:
    return node.op_type == "Dropout" and node.domain in STANDARD_DOMAINS


def _require_in_main_graph(model: onnx.ModelProto) -> None:
    bodies = [nested for node in model.graph.node for nested in subgraphs(node)]
    inner = [node for body in bodies for node in nodes_within(body)]
    inner += [node for function in model.functions for node in function.node]
    for node in inner:
        if _is_dropout(node) or is_batch_norm(node):
            raise InvalidModelError(
                f"{node_label(node)}: expected it in the main graph, got it in a subgraph or function; "
                "inline that first"
            )


class _Forward:
    """Rewrites ``model`` in place. ``running`` are further outputs of batch normalisations that are read."""

    def __init__(
        self, model: onnx.ModelProto, settings: ForwardSettings, running: Mapping[str, RunningOutputs]
    ) -> None:
        self._graph = model.graph
        self._model = model
        self._settings = settings
        self._running = running
        self._builder = NodeBuilder(names_within(model.graph))
        self._norms = BatchNormWriter(self._builder)
        self._statistics = RunningStatistics(model.graph, self._builder)
        self._dropouts = [node for node in model.graph.node if _is_dropout(node)]
        self._types: Mapping[str, ValueType] = {}
        self._inputs = frozenset(value.name for value in model.graph.input)
        if self._dropouts or any(is_batch_norm(node) or is_recurrent(node) for node in model.graph.node):
            self._types = infer_types(model).types
        self._recurrent = RecurrentWriter(self._builder, self._types)

    def run(self) -> TrainingForward:
        """The forward pass."""
        notes = tuple(self._notes())
        ratios: Sequence[float] = self._ratios() if self._settings.dropout == "on" else ()
        masked = any(ratios)
        write_dropout = self._writer_of_masks(ratios) if masked else self._write_identity
        write_norm = self._keep_norm if self._settings.batch_norm == "frozen" else self._write_norm
        for node in self._graph.node:
            if _is_dropout(node):
                write_dropout(node)
            elif is_batch_norm(node):
                write_norm(node)
            elif is_recurrent(node) and self._is_unrolled(node):
                self._recurrent.write(node)
            else:
                self._builder.keep(node)
        statistics = self._statistics.states()
        self._replace_nodes()
        return TrainingForward(self._model, statistics, masked, notes)

    def _is_unrolled(self, node: onnx.NodeProto) -> bool:
        """Whether a recurrent layer is written as plain nodes: always if its weights are trained, so that one
        that cannot be is refused, else if it can be."""
        return not self._inputs.isdisjoint(node.input[1:4]) or not self._recurrent.why_not(node)

    def _ratios(self) -> Sequence[float]:
        constant = stored_constants(self._graph)
        return [ratio_of(node, constant) for node in self._dropouts]

    def _write_identity(self, node: onnx.NodeProto) -> None:
        write_identity(self._builder, node)

    def _writer_of_masks(self, ratios: Sequence[float]) -> Callable[[onnx.NodeProto], None]:
        """Writes the nodes that all masks share; the result writes one dropout after another."""
        settings = self._settings
        counters = Counters(self._scalar(settings.seed, 0), self._call())
        masks = MaskWriter(self._builder, counters, len(ratios))
        dropouts = DropoutWriter(self._builder, masks, self._types)
        samples = self._samples()
        layers = iter(enumerate(ratios))

        def write(node: onnx.NodeProto) -> None:
            layer, ratio = next(layers)
            if ratio:
                dropouts.write(node, layer, ratio, samples)
            else:
                self._write_identity(node)

        return write

    def _call(self) -> str:
        """The number of the call from 1: the step, or (step - 1) * calls + call within the step."""
        settings, build = self._settings, self._builder
        step = self._scalar(settings.step, 1)
        if settings.calls_per_step == 1:
            return step
        call, one = self._scalar(settings.microstep, 1), build.constant("mask_1", np.array(1, np.int64))
        before = build.add("Sub", [step, one], "mask_call")
        calls = build.constant("mask_calls", np.array(settings.calls_per_step, np.int64))
        return build.add("Add", [build.add("Mul", [before, calls], "mask_call"), call], "mask_call")

    def _samples(self) -> Samples | None:
        """Where the batch lies in the global batch, if that is an input."""
        name = self._settings.first_sample
        if name is None:
            return None
        stored = {tensor.name for tensor in self._graph.initializer}
        data = next(
            (
                value.name
                for value in self._graph.input
                if value.name not in stored and value.type.tensor_type.shape.dim
            ),
            None,
        )
        if data is None:
            raise InvalidModelError("the model has no input with samples; expected one, for first_sample")
        return Samples.of_input(self._builder, self._scalar(name, 0), data)

    def _keep_norm(self, node: onnx.NodeProto) -> None:
        self._builder.keep(node)
        self._pass_on(node, node.input[3], node.input[4])

    def _write_norm(self, node: onnx.NodeProto) -> None:
        layer = self._statistics.owned(layer_of(node, self._types))
        mean, variance = self._norms.write(layer)
        if self._settings.unbiased_statistics:
            variance = self._norms.unbiased(layer, variance)
        for name, batch in ((layer.mean, mean), (layer.variance, variance)):
            old = self._statistics.latest(name)
            self._statistics.update(name, self._norms.updated(layer, old, batch))
        self._pass_on(node, self._statistics.latest(layer.mean), self._statistics.latest(layer.variance))

    def _pass_on(self, node: onnx.NodeProto, mean: str, variance: str) -> None:
        """Gives running statistics the names by which the graph reads them."""
        read = self._running.get(node.output[0], RunningOutputs("", ""))
        for value, name in ((mean, read.mean), (variance, read.variance)):
            if name:
                self._builder.write("Identity", [value], name)

    def _scalar(self, name: str, default: int) -> str:
        """The int64 scalar input of that name; added as an overridable initialiser where there is none."""
        given = next((value.type for value in self._graph.input if value.name == name), None)
        if given is None:
            if self._builder.fresh(name) != name:
                raise InvalidModelError(
                    f"tensor {name!r}: expected an int64 scalar input, got another tensor"
                )
            self._graph.input.append(helper.make_tensor_value_info(name, TensorProto.INT64, []))
            self._graph.initializer.append(numpy_helper.from_array(np.array(default, np.int64), name))
        elif given != helper.make_tensor_type_proto(TensorProto.INT64, []):
            shape = [dimension.dim_value or dimension.dim_param for dimension in given.tensor_type.shape.dim]
            element = TensorProto.DataType.Name(given.tensor_type.elem_type)
            raise InvalidModelError(
                f"input {name!r}: expected an int64 scalar, got {element} of shape {shape}"
            )
        return name

    def _replace_nodes(self) -> None:
        """Puts the written nodes into the graph; drops what is left of the old ones: ratios and flags that
        only Dropout nodes read, and types of tensors that are gone."""
        graph, build = self._graph, self._builder
        operands = {name for node in self._dropouts for name in node.input[1:]}
        nodes = list(build.nodes)
        del graph.node[:]
        graph.node.extend(nodes)
        read = {name for node in graph.node for name in (*node.input, *captured_names(node))}
        read.update(value.name for value in (*graph.input, *graph.output))
        for index in reversed(range(len(graph.initializer))):
            if graph.initializer[index].name in operands - read:
                del graph.initializer[index]
        graph.initializer.extend(build.initializers)
        made = {name for node in graph.node for name in node.output}
        for index in reversed(range(len(graph.value_info))):
            if graph.value_info[index].name not in made:
                del graph.value_info[index]

    def _notes(self) -> Iterator[str]:
        count = len(self._dropouts)
        if count:
            verb = "masked" if self._settings.dropout == "on" else "switched off"
            yield f"{count} Dropout {'node' if count == 1 else 'nodes'} {verb}"
        else:
            yield "no Dropout node: exporters leave them out of inference exports"
        operators = {node.op_type for node in self._graph.node}
        if "Conv" in operators and "BatchNormalization" not in operators:
            yield _NO_BATCH_NORM

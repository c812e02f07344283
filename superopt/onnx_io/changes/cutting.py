"""Cut a part out of a model: the nodes between some tensors and others, with the part's own inputs and
outputs."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import onnx
from onnx import helper

from superopt.errors import InvalidModelError, InvalidOptionError
from superopt.ir.types import TensorType
from superopt.onnx_io.changes.adapting import adapted
from superopt.onnx_io.files.source import SourceModel
from superopt.onnx_io.protos import ONNX_ELEMENTS, captured_names, copy_without_graph
from superopt.onnx_io.sizes.inference import InferredTypes, infer_types, without_weights


def cut(source: SourceModel, inputs: Sequence[str], outputs: Sequence[str]) -> SourceModel:
    """The part of the model that computes ``outputs`` from ``inputs``, tensors by name; those of the model
    where none are named. Nodes, weights and declared types in it stay as they are; types of new inputs and
    outputs are inferred. Raises InvalidOptionError for a name that is no tensor, for an output that the
    inputs do not determine, for an input that no output needs, and for one of unknown type."""
    part = _Part(source, tuple(dict.fromkeys(inputs)), tuple(dict.fromkeys(outputs)))
    proto = part.proto()
    try:
        onnx.checker.check_model(without_weights(proto))  # pyright: ignore[reportUnknownMemberType]
    except (onnx.checker.ValidationError, ValueError) as error:
        reason = " ".join(str(error).split()).split(" ==> Context")[0]
        raise InvalidModelError(f"{source.name}: the part cut out is not valid: {reason}") from error
    ends = [f"{side} {_listed(names)}" for side, names in (("from", inputs), ("to", outputs)) if names]
    return replace(adapted(source, proto, f"cutting {' '.join(ends)}"), is_part=True)


@dataclass
class _Part:
    source: SourceModel
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def proto(self) -> onnx.ModelProto:
        """The part as a model."""
        graph = self.source.proto.graph
        self._require_names()
        kept, read = self._needed()
        inputs = self._inputs(read)
        proto = copy_without_graph(self.source.proto)
        part = proto.graph
        part.name, part.doc_string = graph.name, graph.doc_string
        part.node.extend(graph.node[index] for index in kept)
        part.initializer.extend(
            tensor for tensor in graph.initializer if tensor.name in read and tensor.name not in self.inputs
        )
        part.input.extend(inputs)
        part.output.extend(
            self._declared(name) for name in self.outputs or (value.name for value in graph.output)
        )
        inside = {name for node in part.node for name in node.output}
        inside.difference_update(value.name for value in part.output)
        part.value_info.extend(value for value in graph.value_info if value.name in inside)
        stored = {tensor.name for tensor in part.initializer}
        part.quantization_annotation.extend(
            one for one in graph.quantization_annotation if one.tensor_name in inside | stored
        )
        return proto

    @cached_property
    def _inferred(self) -> InferredTypes:
        return infer_types(self.source.proto, self.source.apart)

    @cached_property
    def _producers(self) -> dict[str, int]:
        nodes = enumerate(self.source.proto.graph.node)
        return {name: index for index, node in nodes for name in node.output if name}

    @cached_property
    def _given(self) -> dict[str, onnx.ValueInfoProto]:
        """The inputs of the model that callers give."""
        graph = self.source.proto.graph
        weights = self.source.tensors.keys() - self.source.overridable
        return {value.name: value for value in graph.input if value.name not in weights}

    def _require_names(self) -> None:
        known = {*self._producers, *self._given, *self.source.tensors}
        for option, names in (("cut-input", self.inputs), ("cut-output", self.outputs)):
            for name in names:
                if name not in known:
                    raise InvalidOptionError(
                        f"{option}: the model has no tensor {name!r}{_closest(name, known)}"
                    )
        for name in self.outputs:
            if name not in self._producers or name in self.inputs:
                what = "an input of the part" if name in self.inputs else "not computed by any node"
                raise InvalidOptionError(f"cut-output: expected a computed tensor, and {name!r} is {what}")

    def _needed(self) -> tuple[list[int], set[str]]:
        """The indices of the nodes of the part, and every name that the part reads."""
        graph = self.source.proto.graph
        wanted = list(self.outputs or (value.name for value in graph.output))
        cut_at, read, kept = set(self.inputs), set(wanted), set[int]()
        while wanted:
            name = wanted.pop()
            index = self._producers.get(name)
            if name in cut_at or index is None or index in kept:
                continue
            kept.add(index)
            node = graph.node[index]
            operands = [operand for operand in (*node.input, *captured_names(node)) if operand]
            wanted += operands
            read.update(operands)
        return sorted(kept), read

    def _inputs(self, read: set[str]) -> list[onnx.ValueInfoProto]:
        """The inputs of the part: those named, else those of the model that the outputs need."""
        for name in self.inputs:
            if name not in read:
                raise InvalidOptionError(f"cut-input: no output of the part needs {name!r}; leave it out")
        left = [name for name in self._given if name in read and name not in self.inputs]
        needed = [name for name in left if name not in self.source.overridable]
        if self.inputs and needed:
            raise InvalidOptionError(
                f"cut-input: {_listed(self.inputs)} do not determine the outputs of the part, which also "
                f"need {_listed(needed)}: add --cut-input {needed[0]}, or a tensor computed from it"
            )
        own = self.source.proto.graph.input
        weights = [value for value in own if value.name in read and value.name not in self._given]
        declared = [self._given[name] for name in left]
        return [*(self._declared(name) for name in self.inputs), *declared, *weights]

    def _declared(self, name: str) -> onnx.ValueInfoProto:
        """The declaration of a tensor: the model's own, else by its inferred type."""
        graph = self.source.proto.graph
        for value in (*graph.input, *graph.output):
            if value.name == name:
                return value
        tensor = self.source.tensors.get(name)
        if tensor is not None:
            return helper.make_tensor_value_info(name, tensor.data_type, tensor.shape)
        proto, type_ = self._inferred.protos.get(name), self._inferred.types.get(name)
        if isinstance(type_, TensorType) and type_.element in ONNX_ELEMENTS:
            shape = [size if isinstance(size, int) else str(size) for size in type_.shape]
            return helper.make_tensor_value_info(name, ONNX_ELEMENTS[type_.element], shape)
        if proto is not None and proto.WhichOneof("value") is not None:
            return onnx.ValueInfoProto(name=name, type=proto)
        raise InvalidOptionError(
            f"cut: the type of {name!r} cannot be inferred, and an input or output of a model needs one"
        )


def _closest(name: str, known: Iterable[str]) -> str:
    found = difflib.get_close_matches(name, sorted(known), n=3, cutoff=0.5)
    return f"; closest: {_listed(found)}" if found else ""


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


__all__ = ["cut"]

"""Declared tensor types that contradict ONNX shape inference; they are not used for lifting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import onnx

from superopt.ir.dimensions import symbols_of
from superopt.ir.types import TensorType
from superopt.onnx_io.changes.simplifying import light
from superopt.onnx_io.files.source import SourceModel
from superopt.onnx_io.protos import copy_without_graph
from superopt.onnx_io.sizes.inference import infer_types, without_weights


def without_false_types(source: SourceModel) -> SourceModel:
    """The model without false type declarations, and warnings about them; the same model if there are
    none."""
    if source.fixed_reason is not None:
        return source
    false = false_declarations(source.proto)
    if not false:
        return source
    bare = _without(source.proto, frozenset(false))
    return replace(
        source, proto=bare, came_from=source, warnings=(*source.warnings, *_sentences(false, source))
    )


def false_declarations(model: onnx.ModelProto) -> Mapping[str, tuple[TensorType, TensorType]]:
    """(declared, inferred) for each computed tensor whose declared rank or size is wrong at some sizes of the
    inputs: exporters declare the sizes that they traced, although inputs are open."""
    graph = model.graph
    made = frozenset(name for node in graph.node for name in node.output if name)
    declared = {value.name: value for value in (*graph.value_info, *graph.output) if value.name in made}
    if not any(value.type.tensor_type.HasField("shape") for value in declared.values()):
        return {}
    inferred = infer_types(_without(without_weights(model), frozenset(declared))).types
    given = map(inferred.get, (value.name for value in graph.input))
    free = {name for type_ in given if isinstance(type_, TensorType) for name in type_.symbols}
    said = infer_types(onnx.helper.make_model(_only(declared))).types
    false: dict[str, tuple[TensorType, TensorType]] = {}
    for name in declared:
        claim, fact = said.get(name), inferred.get(name)
        if (
            isinstance(claim, TensorType)
            and isinstance(fact, TensorType)
            and not _may_agree(claim, fact, free)
        ):
            false[name] = (claim, fact)
    return false


def _may_agree(claim: TensorType, fact: TensorType, free: set[str]) -> bool:
    """Whether the declaration holds at all sizes of the inputs, whose symbols are ``free``, or may do so."""
    if claim.rank != fact.rank:
        return False
    pairs = zip(claim.shape, fact.shape, strict=True)
    return all(a == b or not isinstance(a, int) or not symbols_of(b) <= free for a, b in pairs)


def _only(declared: Mapping[str, onnx.ValueInfoProto]) -> onnx.GraphProto:
    return onnx.helper.make_graph([], "declared", list(declared.values()), [])


def _without(model: onnx.ModelProto, names: frozenset[str]) -> onnx.ModelProto:
    """The model without declarations of these tensors, except for element types of outputs."""
    result = copy_without_graph(model)
    for field, content in model.graph.ListFields():
        if not field.is_repeated:
            setattr(result.graph, field.name, content)
        elif field.name not in ("initializer", "value_info"):
            getattr(result.graph, field.name).extend(content)
    result.graph.initializer.extend(map(light, model.graph.initializer))
    result.graph.value_info.extend(value for value in model.graph.value_info if value.name not in names)
    for output in result.graph.output:
        if output.name in names and output.type.HasField("tensor_type"):
            output.type.tensor_type.ClearField("shape")
    return result


def _sentences(false: Mapping[str, tuple[TensorType, TensorType]], source: SourceModel) -> list[str]:
    outputs = [value.name for value in source.proto.graph.output if value.name in false]
    found = [f"output {name!r} is declared as {false[name][0]}, but is {false[name][1]}" for name in outputs]
    inner = [name for name in false if name not in outputs]
    if inner:
        claim, fact = false[inner[0]]
        count = "a declared type is" if len(inner) == 1 else f"{len(inner)} declared types are"
        found.append(f"{count} false, as that of {inner[0]!r}: {claim}, but it is {fact}")
    return found

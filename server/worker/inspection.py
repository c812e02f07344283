"""Checks of an untrusted upload before it is accepted, run in ``server.process.sandbox``."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, cast

from superopt.errors import InvalidFileError, InvalidModelError
from superopt.onnx_io import SourceModel, load_model
from superopt.onnx_io.protos import subgraphs
from superopt.optimizer.parallel.documents.cluster import parse_cluster
from superopt.optimizer.pipeline.runnable import why_refused
from superopt.server.problem_types import InvalidClusterError, ModelTooLargeError
from superopt.server.worker.dimension_names import wrong_dimensions

if TYPE_CHECKING:
    from superopt.substitution_db.store.records import JsonObject

_VALUES_PER_NODE = 4
"""Limit of declared values, per node of the node limit."""


def inspect(arguments: JsonObject, _progress: Callable[[JsonObject], None]) -> JsonObject:
    """Reads an upload as a job would: the model at the path ``model`` with its external data, and the file
    ``cluster`` unless null. ``name`` is the model's display name; ``dim`` and ``freeze`` are those options.

    Returns ``{"nodes": how many, "errors": of these options}``. Raises InvalidModelError, ModelTooLargeError,
    InvalidClusterError.
    """
    if arguments["cluster"] is not None:
        _check_cluster(Path(str(arguments["cluster"])))
    model = _model(Path(str(arguments["model"])), str(arguments["name"]))
    nodes, values = _sizes(model)
    limit = int(str(arguments["max_model_nodes"]))
    if values > _VALUES_PER_NODE * limit:
        raise ModelTooLargeError(
            f"the model has {values} inputs, outputs, initialisers and value infos, "
            f"the limit is {_VALUES_PER_NODE * limit}"
        )
    if nodes > limit:
        raise ModelTooLargeError(
            f"the model has {nodes} nodes (subgraphs and functions included), {limit} are allowed"
        )
    dim, freeze = (cast("JsonObject", arguments[name]) for name in ("dim", "freeze"))
    errors = wrong_dimensions(model, dim, freeze, has_cluster=arguments["cluster"] is not None)
    return {"nodes": nodes, "errors": errors}


def _check_cluster(path: Path) -> None:
    """Raises InvalidClusterError for an invalid cluster description, including aliases and deep nesting."""
    try:
        parse_cluster(path.read_text(encoding="utf-8"), "cluster")
    except (InvalidFileError, UnicodeDecodeError) as error:
        raise InvalidClusterError(str(error)) from None


def _model(path: Path, name: str) -> SourceModel:
    try:
        return load_model(path, why_refused)
    except InvalidModelError as error:
        raise InvalidModelError(str(error).replace(str(path), name)) from None


def _sizes(model: SourceModel) -> tuple[int, int]:
    """The number of nodes and of declared values, including subgraphs, with functions counted per call (a few
    nested functions can expand to very many nodes).
    """
    functions = {(function.domain, function.name): function for function in model.proto.functions}

    @cache
    def called(domain: str, name: str) -> int:
        function = functions.get((domain, name))
        inner = () if function is None else function.node
        return sum(1 + called(node.domain, node.op_type) for node in inner)

    graphs, nodes, values = [model.proto.graph], 0, 0
    while graphs:
        graph = graphs.pop()
        values += len(graph.input) + len(graph.output) + len(graph.initializer) + len(graph.value_info)
        values += len(graph.sparse_initializer) + len(graph.quantization_annotation)
        for node in graph.node:
            nodes += 1 + called(node.domain, node.op_type)
            graphs.extend(subgraphs(node))
    return nodes, values

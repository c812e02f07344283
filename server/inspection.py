"""What is looked at before an upload is accepted; runs in ``server.sandbox``, so that it may be anything."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

import yaml

from server.problem_types import InvalidClusterError, ModelTooLargeError
from superopt.errors import InvalidModelError
from superopt.onnx_io import SourceModel, load_model
from superopt.onnx_io.protos import subgraphs

if TYPE_CHECKING:
    from substitution_db.records import JsonObject

_DEEPEST = 20


def inspect(arguments: JsonObject) -> JsonObject:
    """Reads an upload as a job would: the model at the path ``model`` beside its external data, and the file
    ``cluster`` if that is not null. ``name`` is what people call the model.

    Returns ``{"nodes": how many}``. Raises InvalidModelError, ModelTooLargeError, InvalidClusterError.
    """
    if arguments["cluster"] is not None:
        read_cluster(Path(str(arguments["cluster"])).read_bytes())
    nodes = _nodes(_model(Path(str(arguments["model"])), str(arguments["name"])))
    limit = int(str(arguments["max_model_nodes"]))
    if nodes > limit:
        raise ModelTooLargeError(
            f"the model has {nodes} nodes (subgraphs and functions included), {limit} are allowed"
        )
    return {"nodes": nodes}


def read_cluster(text: bytes) -> Mapping[str, object]:
    """A cluster description as plain values: YAML (which includes JSON) without aliases, not nested deeply.

    Raises InvalidClusterError.
    """
    try:
        depth = 0
        for event in yaml.parse(text, yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                raise InvalidClusterError("cluster: aliases (*name) are not read; write the value again")
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _DEEPEST:
                raise InvalidClusterError(f"cluster: nested more than {_DEEPEST} deep")
        content: object = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:
        raise InvalidClusterError(f"cluster: not YAML: {' '.join(str(error).split())[:300]}") from error
    if not isinstance(content, dict):
        raise InvalidClusterError("cluster: expected name, nodes and network, got no mapping")
    return cast("Mapping[str, object]", content)


def _model(path: Path, name: str) -> SourceModel:
    try:
        return load_model(path)
    except InvalidModelError as error:
        raise InvalidModelError(str(error).replace(str(path), name)) from None


def _nodes(model: SourceModel) -> int:
    """The nodes of the model, its subgraphs and functions."""
    rest = [*model.proto.graph.node, *(node for function in model.proto.functions for node in function.node)]
    count = 0
    while rest:
        node = rest.pop()
        count += 1
        rest.extend(inner for graph in subgraphs(node) for inner in graph.node)
    return count

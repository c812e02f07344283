"""Check of dimension names in the options ``dim`` and ``freeze`` against the open dimensions of a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from itertools import islice

from superopt.onnx_io import SourceModel
from superopt.onnx_io.changes.freezing import open_axes

_MOST_ERRORS = 10
_MOST_COMPARED = 2000
_MOST_LISTED = 20


def wrong_dimensions(
    source: SourceModel, dim: Mapping[str, object], freeze: Mapping[str, object]
) -> list[dict[str, str]]:
    """Field and detail of each entry that names no open dimension of the model, or is in both options."""
    return list(islice(_wrong(source, dim, freeze), _MOST_ERRORS))


def _wrong(
    source: SourceModel, dim: Mapping[str, object], freeze: Mapping[str, object]
) -> Iterator[dict[str, str]]:
    axes = open_axes(source)
    names = list(dict.fromkeys(axis.name for axis in axes))
    open_names = {*names, *(axis.place for axis in axes)}
    named = {"dim": (dim, open_names | _declared(source)), "freeze": (freeze, open_names)}
    for option, (sizes, known) in named.items():
        for name in sizes:
            if name not in known:
                yield {"field": f"{option}.{name}", "detail": _unknown(name, names, open_names)}
    for name in dim:
        if name in freeze:
            yield {"field": f"dim.{name}", "detail": "expected in dim or in freeze, got both"}


def _declared(source: SourceModel) -> set[str]:
    """Names of dimensions that outputs and intermediate tensors declare."""
    values = (*source.proto.graph.output, *source.proto.graph.value_info)
    return {one.dim_param for value in values for one in value.type.tensor_type.shape.dim}


def _unknown(name: str, names: list[str], open_names: set[str]) -> str:
    if not names:
        return "the model has no open dimensions"
    near = get_close_matches(name, sorted(open_names)[:_MOST_COMPARED])
    hint = f" (did you mean {' or '.join(near)}?)" if near else ""
    more = f", … ({len(names)} in all)" if len(names) > _MOST_LISTED else ""
    return f"the model has no such open dimension{hint}; it has: {', '.join(names[:_MOST_LISTED])}{more}"

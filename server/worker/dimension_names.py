"""Check of dimension names in the options ``dim`` and ``freeze`` against the open dimensions of a model."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from itertools import chain, islice

from superopt.onnx_io import SourceModel, lift
from superopt.onnx_io.changes.freezing import is_of_outputs, open_axes
from superopt.optimizer.check import names_apart, open_names

_MOST_ERRORS = 10
_MOST_COMPARED = 2000
_MOST_LISTED = 20


def wrong_dimensions(
    source: SourceModel, dim: Mapping[str, object], freeze: Mapping[str, object], *, has_cluster: bool = False
) -> list[dict[str, str]]:
    """Field and detail of each entry that names no open dimension of the model, or is in both options; with a
    cluster, of each open dimension of an input that is in neither."""
    missing = _missing(source, {*dim, *freeze}) if has_cluster else ()
    return list(islice(chain(_wrong(source, dim, freeze), missing), _MOST_ERRORS))


def _missing(source: SourceModel, given: Container[str]) -> Iterator[dict[str, str]]:
    names = {axis.name: axis.name in given or axis.place in given for axis in open_axes(source)}
    for name, is_given in names.items():
        if not is_given:
            yield {"field": f"dim.{name}", "detail": "expected a size, which a plan for a cluster needs"}


def _wrong(
    source: SourceModel, dim: Mapping[str, object], freeze: Mapping[str, object]
) -> Iterator[dict[str, str]]:
    axes = open_axes(source)
    names = list(dict.fromkeys(axis.name for axis in axes))
    of_inputs = {*names, *(axis.place for axis in axes)}
    others = _declared(source).intersection(dim) - of_inputs
    inside = _inside(source, dim) if others else frozenset[str]()
    named = {"dim": (dim, of_inputs | inside), "freeze": (freeze, of_inputs)}
    for option, (sizes, known) in named.items():
        for name in sizes:
            if name not in known:
                near = get_close_matches(name, sorted(of_inputs)[:_MOST_COMPARED])
                hint = "only outputs declare it" if is_of_outputs(name, source) else _alternatives(near)
                yield {"field": f"{option}.{name}", "detail": _unknown(names, hint)}
    for name in dim:
        if name in freeze:
            yield {"field": f"dim.{name}", "detail": "expected in dim or in freeze, got both"}


def _declared(source: SourceModel) -> set[str]:
    """Names of dimensions that outputs and intermediate tensors declare."""
    values = (*source.proto.graph.output, *source.proto.graph.value_info)
    return {one.dim_param for value in values for one in value.type.tensor_type.shape.dim}


def _inside(source: SourceModel, dim: Mapping[str, object]) -> frozenset[str]:
    """Names of all dimensions to which ``dim`` can give a size. Infers the types of all tensors, which takes
    longer than reading the model."""
    return frozenset(open_names(lift(replace(source, apart=names_apart(source, dim, None)))))


def _alternatives(near: Sequence[str]) -> str:
    return f"did you mean {' or '.join(near)}?" if near else ""


def _unknown(names: list[str], hint: str) -> str:
    if not names:
        return "the model has no open dimensions"
    said = f" ({hint})" if hint else ""
    more = f", … ({len(names)} in all)" if len(names) > _MOST_LISTED else ""
    return f"the model has no such open dimension{said}; it has: {', '.join(names[:_MOST_LISTED])}{more}"

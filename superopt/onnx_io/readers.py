"""Consumers of each tensor of a model, including those in subgraphs, as plain values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx

from superopt.ir.types import ElementType
from superopt.onnx_io.files.source import SourceModel
from superopt.onnx_io.protos import STANDARD_DOMAINS, element_type, subgraphs

LONG = 4096


@dataclass(frozen=True, slots=True)
class Reader:
    """A reader of a tensor: the node and the operand slot. The standard domain is ``""``. ``integers`` and
    ``texts`` are the integer and text attributes, single values as a list, without those of over ``LONG``
    values, which are a trained model's and no options."""

    op_type: str
    domain: str
    slot: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    integers: Mapping[str, tuple[int, ...]]
    texts: Mapping[str, tuple[str, ...]]

    def integer(self, name: str, default: int) -> int:
        """An integer attribute."""
        return next(iter(self.integers.get(name, ())), default)

    @property
    def casts_to(self) -> ElementType | None:
        """The target element type of a Cast; None for any other operator."""
        return element_type(self.integer("to", 0)) if self.op_type == "Cast" else None


def readers_by_tensor(source: SourceModel) -> Mapping[str, Sequence[Reader]]:
    """The readers of every tensor by its name, in model order."""
    found: dict[str, list[Reader]] = defaultdict(list)
    for node in _nodes(source.proto.graph.node):
        short = [a for a in node.attribute if len(a.ints) <= LONG and len(a.strings) <= LONG]
        integers = {a.name: tuple(a.ints) or (a.i,) for a in short}
        texts = {a.name: tuple(text.decode(errors="replace") for text in a.strings) for a in short}
        domain = "" if node.domain in STANDARD_DOMAINS else node.domain
        for slot, name in enumerate(node.input):
            if name:
                found[name].append(
                    Reader(node.op_type, domain, slot, tuple(node.input), tuple(node.output), integers, texts)
                )
    return found


def _nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in nodes:
        yield node
        for graph in subgraphs(node):
            yield from _nodes(graph.node)

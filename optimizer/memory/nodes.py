"""The nodes of an ONNX model as operations on tensors, and models whose nodes run by a schedule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from superopt.errors import UnsupportedError
from superopt.onnx_io.node_memory import TensorSize, is_repeatable, is_view, overwrites, workspace
from superopt.onnx_io.protos import captured_names, rename_captured, renamed
from superopt.optimizer.memory.liveness import Operation, Program, Schedule

if TYPE_CHECKING:
    import onnx

_CONSTANT = "Constant"


@dataclass(frozen=True)
class NodeProgram:
    """A model's nodes as a program: operation ``i`` is node ``i``, tensor ``j`` is called ``tensors[j]``."""

    program: Program
    nodes: Sequence[onnx.NodeProto]
    tensors: tuple[str, ...]


@dataclass
class _Tensors:
    sizes: Mapping[str, TensorSize]
    numbers: dict[str, int] = field(default_factory=dict[str, int])

    def number(self, name: str) -> int:
        return self.numbers.setdefault(name, len(self.numbers))

    def require(self, name: str) -> int:
        """The bytes of a tensor; raises UnsupportedError where its size is not known."""
        if name not in self.sizes:
            raise UnsupportedError(f"the size of tensor {name!r} is not known without running the model")
        return self.sizes[name].bytes


def program_of(
    graph: onnx.GraphProto,
    sizes: Mapping[str, TensorSize],
    *,
    costs: Mapping[int, float] | None = None,
    placed: Collection[str] = (),
) -> NodeProgram:
    """The nodes of a graph as operations. ``sizes`` are those of all tensors that are not weights in the
    graph, ``costs`` microseconds by node (by default 1); ``placed`` are outputs whose memory is the caller's.
    Weights, inputs and placed outputs are resident. Raises UnsupportedError for a tensor of unknown size."""
    tensors = _Tensors(sizes)
    outputs = {value.name for value in graph.output}
    operations = [
        _operation(node, tensors, outputs, 1.0 if costs is None else costs.get(index, 0.0), str(index))
        for index, node in enumerate(graph.node)
    ]
    made = {name for node in graph.node for name in node.output}
    constants = [node.output[0] for node in graph.node if node.op_type == _CONSTANT]
    given = {value.name for value in graph.input}.union(tensor.name for tensor in graph.initializer)
    held = sum(tensors.require(name) for name in (*given, *constants, *placed))
    bytes_of = tuple(
        tensors.require(name) if name in made and name not in constants else 0 for name in tensors.numbers
    )
    return NodeProgram(
        Program(
            tuple(operations),
            bytes_of,
            frozenset(tensors.number(name) for name in outputs if name in made),
            held,
            frozenset(tensors.number(name) for name in placed),
        ),
        graph.node,
        tuple(tensors.numbers),
    )


def _operation(
    node: onnx.NodeProto, tensors: _Tensors, outputs: Collection[str], cost: float, name: str
) -> Operation:
    reads = tuple(tensors.number(read) for read in (*node.input, *captured_names(node)) if read)
    writes = tuple(tensors.number(written) for written in node.output if written)
    return Operation(
        node.name or f"node {name}",
        reads,
        writes,
        overwrites=reads[:1] if overwrites(node, outputs) else (),
        is_view=is_view(node, outputs),
        workspace=workspace(node, tensors.sizes),
        repeatable=is_repeatable(node) and node.op_type != _CONSTANT,
        cost=cost,
    )


def scheduled_nodes(
    nodes: Sequence[onnx.NodeProto], schedule: Schedule, outputs: Collection[str], taken: Collection[str]
) -> Iterator[onnx.NodeProto]:
    """The nodes in the order of a schedule. A node that stands there again is a copy with results of its
    own, called ``NAME.again1`` and so on, which later nodes read; graph ``outputs`` stay those of the first.
    ``taken`` are all names of the model."""
    present = dict[str, str]()
    runs: Counter[int] = Counter()
    used = set(taken)
    for index in schedule:
        node = nodes[index]
        reads = [present.get(name, name) for name in node.input]
        written = [_fresh(name, runs[index], used) if runs[index] else name for name in node.output]
        copy = renamed(node, reads, written)
        if runs[index]:
            copy.name = _fresh(node.name, runs[index], used)
        rename_captured(copy, present)
        for old, new in zip(node.output, written, strict=True):
            if old and (old not in outputs or not runs[index]):
                present[old] = new
        runs[index] += 1
        yield copy


def _fresh(name: str, run: int, used: set[str]) -> str:
    if not name:
        return ""
    found = f"{name}.again{run}"
    while found in used:
        found += "'"
    used.add(found)
    return found

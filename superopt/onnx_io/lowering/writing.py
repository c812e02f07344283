"""Write a graph as ONNX nodes: selects the nodes needed, their names and their order."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

from superopt.domains import Array
from superopt.errors import SuperoptError, UnsupportedError
from superopt.ir.graph import Graph, Input, Node, Value, Weight
from superopt.onnx_io.emit.emission import recipe
from superopt.onnx_io.emit.folding import Folder
from superopt.onnx_io.emit.recipes import Emission, Number, OnnxAttribute, Operand, Recipe
from superopt.onnx_io.emit.shape import outer_split
from superopt.onnx_io.files.stored import SpilledTensor, StoredTensor, pieces
from superopt.onnx_io.lowering.kept import KeptNode, splits_to_merge
from superopt.onnx_io.lowering.ordering import in_order
from superopt.onnx_io.lowering.units import Copy, Original, Stored, Unit, Written
from superopt.onnx_io.protos import captured_names, dtype_of, renamed
from superopt.ops import Opaque
from superopt.ops.shape import Cutting
from superopt.ops.traits import traits

PREFIX = "superopt/"

_SPILLED_KINDS = "biuf"
"""Kinds of numpy types whose arrays are the dense storage of the ONNX type."""


class GraphWriter(Emission):
    """Writes one graph; also the ``Writer`` of its recipes. New constants from ``spilling`` bytes on go to
    temporary files."""

    def __init__(
        self,
        graph: Graph,
        opset: int,
        weight: Callable[[str], Array],
        outputs: Sequence[str],
        original: Original,
        spilling: int = sys.maxsize,
    ) -> None:
        self._kept_of = {node: kept for kept in original.kept.values() for node in kept.group.nodes}
        for node in splits_to_merge(graph, frozenset(self._kept_of)):
            if node in self._kept_of:
                for member in self._kept_of[node].group.nodes:
                    del self._kept_of[member]
        super().__init__(graph, opset, frozenset(self._kept_of))
        self._original = original
        self._outputs = tuple(zip(outputs, map(self.resolve, graph.outputs), strict=True))
        self._folder = Folder(graph, weight)
        self._units: dict[tuple[str, int], Unit] = {}
        self._copies: dict[str, Copy] = {}
        self._names: dict[Value, str] = {}
        self._taken = set(original.taken).union(outputs)
        self._nodes: list[onnx.NodeProto] = []
        self._initializers: list[onnx.TensorProto] = []
        self._spilling = spilling
        self._spilled: dict[str, StoredTensor] = {}
        self._interned: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._calculated: dict[tuple[object, ...], str] = {}
        self._constants: set[str] = set()
        self._current = "node"
        self._touched = False

    def write(self) -> Written:
        """Writes what the outputs, the opaque nodes and the originally dead nodes need. Raises
        CyclicGraphError for a cycle."""
        units = self._needed()
        self._assign_names(units)
        for unit in in_order((*units, *self._copies.values()), self._reads, self._described):
            self._write_unit(unit)
        self._folder.clear()
        complete = len(self._nodes) == len(self._original.nodes)
        return Written(
            tuple(self._nodes),
            tuple(self._initializers),
            self._spilled,
            frozenset(self._constants),
            self._names,
            complete and not self._touched,
        )

    def _unit_of(self, value: Value) -> Unit | None:
        """The unit that writes a resolved value; None for inputs and for constants read by name."""
        node = self.graph[value.node]
        if isinstance(node.operator, (Input, Weight)):
            return None
        kept = self._kept_of.get(node.id)
        if kept is not None:
            return self._memo(("stored", kept.index), lambda: self._kept(kept))
        if isinstance(node.operator, Opaque):
            operator = node.operator
            return self._memo(("stored", operator.index), lambda: self._opaque(node, operator.index))
        if self.is_constant(value):
            return None
        if isinstance(node.operator, Cutting):
            node = outer_split(self, node)
        return self._memo(("new", node.id), lambda: recipe(self, node))

    def _memo(self, key: tuple[str, int], make: Callable[[], Unit]) -> Unit:
        if key not in self._units:
            self._units[key] = make()
        return self._units[key]

    def _constant_node(self, index: int) -> Unit:
        return self._memo(("stored", index), lambda: Stored(index, (None,), ()))

    def _kept(self, kept: KeptNode) -> Stored:
        names = self._original.nodes[kept.index].input
        inputs = tuple(
            name if slot is None else self.resolve(kept.rewired.get(slot, slot))
            for name, slot in zip(names, kept.group.slots, strict=True)
        )
        return Stored(kept.index, kept.group.outputs, inputs)

    def _opaque(self, node: Node, index: int) -> Stored:
        if index >= len(self._original.nodes):
            raise UnsupportedError(f"{node.operator.name}: an opaque node is written from its model only")
        proto = self._original.nodes[index]
        values = [self.resolve(value) for value in node.inputs]
        captured = captured_names(proto)
        given = sum(1 for name in proto.input if name)
        if given + len(captured) != len(values):
            raise UnsupportedError(f"{proto.op_type} {proto.name!r}: not all of its operands are known")
        operands = iter(values)
        inputs = tuple(next(operands) if name else name for name in proto.input)
        return Stored(index, node.values, inputs, tuple(zip(captured, operands, strict=True)))

    def _reads(self, unit: Unit) -> Iterator[Unit]:
        """The units that must be written before this one."""
        if isinstance(unit, Copy):
            yield from self._behind(unit.value)
        elif isinstance(unit, Recipe):
            for operand in unit.operands:
                if isinstance(operand, Number):
                    continue
                value = self.resolve(operand.value)
                if self.is_constant(value):
                    yield from self._behind_label(self._stored_label(operand))
                else:
                    yield from self._behind(value)
        else:
            for source in unit.inputs:
                yield from self._behind_label(source) if isinstance(source, str) else self._behind(source)
            for name, value in unit.captures:
                yield from (self._copies[name],) if name in self._copies else self._behind(value)
        defines = () if isinstance(unit, Copy) else unit.defines
        for node in {value.node for value in defines if value is not None}:
            for earlier in self.graph[node].after:
                yield from self._behind(Value(earlier))

    def _behind(self, value: Value) -> Iterable[Unit]:
        unit = self._unit_of(value)
        return self._behind_label(self._stored_label(Operand(value))) if unit is None else (unit,)

    def _behind_label(self, label: str | None) -> Iterable[Unit]:
        index = None if label is None else self._original.stored.get(label)
        return () if index is None else (self._constant_node(index),)

    def _needed(self) -> list[Unit]:
        """All units to be written: copied nodes in their old order, then the others."""
        roots: list[Unit] = []
        for node in self.graph:
            kept = self._kept_of.get(node.id)
            if isinstance(node.operator, Opaque) or (kept is not None and kept.index in self._original.dead):
                roots.extend(self._behind(node.values[0]) if node.types else (self._opaque_root(node),))
        roots.extend(self._constant_node(index) for index in self._dead_constants())
        for _, value in self._outputs:
            roots.extend(self._behind(value))
        found: dict[int, Unit] = {}
        waiting = roots[::-1]
        while waiting:
            unit = waiting.pop()
            if id(unit) not in found:
                found[id(unit)] = unit
                waiting.extend(self._reads(unit))
        copied = sorted(
            (unit for unit in found.values() if isinstance(unit, Stored)), key=lambda unit: unit.index
        )
        return [*copied, *(unit for unit in found.values() if not isinstance(unit, Stored))]

    def _opaque_root(self, node: Node) -> Unit:
        assert isinstance(node.operator, Opaque)
        index = node.operator.index
        return self._memo(("stored", index), lambda: self._opaque(node, index))

    def _dead_constants(self) -> Iterator[int]:
        constants = {index for index in self._original.stored.values() if index is not None}
        yield from (index for index in self._original.dead if index in constants)

    def _assign_names(self, units: Sequence[Unit]) -> None:
        owner: dict[str, Value] = {}
        for node in self.graph:
            if isinstance(node.operator, Input):
                self._names[node.value] = node.operator.label
                owner[node.operator.label] = node.value
        pinned = [
            (name, value) for unit in units if isinstance(unit, Stored) for name, value in unit.captures
        ]
        required = [*self._outputs, *pinned]
        required.sort(key=lambda pair: self._original.names.get(pair[1]) != pair[0])
        for name, value in required:
            if owner.get(name) != value:
                self._give_name(name, value, owner)
        self._taken.update(owner)
        made = [
            value
            for unit in units
            if not isinstance(unit, Copy)
            for value in unit.defines
            if value is not None
        ]
        for name, value in (*self._old_names(made), *self._names_that_readers_know(units)):
            if value not in self._names and name not in owner:
                self._names[value] = name
                owner[name] = value
        for value in made:
            if value not in self._names:
                self._names[value] = self._fresh(self._readable(value))

    def _old_names(self, values: Sequence[Value]) -> Iterator[tuple[str, Value]]:
        yield from ((self._original.names[value], value) for value in values if value in self._original.names)

    def _names_that_readers_know(self, units: Sequence[Unit]) -> Iterator[tuple[str, Value]]:
        """Lets the replacement of a tensor take over its name, so that copied readers stay unchanged."""
        for unit in units:
            if not isinstance(unit, Stored):
                continue
            for name, source in zip(self._original.nodes[unit.index].input, unit.inputs, strict=True):
                if isinstance(source, str) or name in self._original.stored:
                    continue
                if self._unit_of(source) is not None:
                    yield name, source

    def _give_name(self, name: str, value: Value, owner: dict[str, Value]) -> None:
        label = self._stored_label(Operand(value)) if self._unit_of(value) is None else None
        if name in owner or (name in self._original.stored and label != name):
            raise SuperoptError(f"two different tensors would have to be called {name!r}")
        owner[name] = value
        if label == name:
            return
        if self._unit_of(value) is None or value in self._names:
            self._copies[name] = Copy(name, value)
        else:
            self._names[value] = name

    def _readable(self, value: Value) -> str:
        node = self.graph[value.node]
        base = f"{PREFIX}{node.operator.name}_{node.id}"
        return base if len(node.types) == 1 else f"{base}_{value.port}"

    def _fresh(self, base: str) -> str:
        name, tries = base, 1
        while name in self._taken:
            tries += 1
            name = f"{base}_{tries}"
        self._taken.add(name)
        return name

    def _described(self, unit: Unit) -> str:
        """Description of a unit for messages."""
        if isinstance(unit, Stored):
            proto = self._original.nodes[unit.index]
            return f"{proto.op_type} {proto.name!r}"
        return repr(unit.name) if isinstance(unit, Copy) else self._readable(unit.defines[0])

    def _write_unit(self, unit: Unit) -> None:
        if isinstance(unit, Stored):
            self._write_stored(unit)
        elif isinstance(unit, Copy):
            self._current = f"{PREFIX}identity"
            self.node("Identity", [self._name(unit.value)], [unit.name])
        else:
            self._current = self._readable(unit.defines[0])
            names = tuple(self._operand_name(operand) for operand in unit.operands)
            unit.write(self, names, tuple(self._names[value] for value in unit.defines))

    def _write_stored(self, unit: Stored) -> None:
        proto = self._original.nodes[unit.index]
        inputs = [
            self._stay(source) if isinstance(source, str) else self._name(source) for source in unit.inputs
        ]
        for name, value in unit.captures:
            if name not in self._copies:
                self._name(value)
        defines = (*unit.defines, *(None,) * (len(proto.output) - len(unit.defines)))
        outputs = [
            old if value is None or not old else self._names[value]
            for old, value in zip(proto.output, defines, strict=True)
        ]
        if inputs != list(proto.input) or outputs != list(proto.output):
            self._touched = True
            proto = renamed(proto, inputs, outputs)
        self._nodes.append(proto)

    def _stay(self, name: str) -> str:
        if name in self._original.stored:
            self._constants.add(name)
        return name

    def _name(self, value: Value) -> str:
        return self._operand_name(Operand(value)) if self._unit_of(value) is None else self._names[value]

    def _operand_name(self, operand: Operand | Number) -> str:
        if isinstance(operand, Number):
            content = np.full((1,) * operand.rank, float(operand.value))
            return self.constant(content.astype(dtype_of(operand.element)), "number")
        value = self.resolve(operand.value)
        if not self.is_constant(value):
            return self._names[value]
        label = self._stored_label(operand)
        if label is not None:
            return self._stay(label)
        array = self._folder.value(value)
        return self.constant(array if operand.shape is None else array.reshape(operand.shape), "weight")

    def _stored_label(self, operand: Operand) -> str | None:
        """The stored constant that holds the operand, up to leading axes of 1 where permitted."""
        node = self.graph[self.resolve(operand.value).node]
        type_ = self.graph.type_of(operand.value)
        while traits(node.operator.name).renames:
            node = self.graph[node.inputs[0].node]
        if not isinstance(node.operator, Weight) or node.operator.label not in self._original.stored:
            return None
        have = node.operator.type.shape
        want = operand.shape if operand.shape is not None else getattr(type_, "shape", ())
        if have == want:
            return node.operator.label
        if operand.rank is not None and len(have) <= operand.rank and _trimmed(have) == _trimmed(want):
            return node.operator.label
        return None

    def node(
        self,
        op_type: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        attributes: Mapping[str, OnnxAttribute] | None = None,
    ) -> None:
        """Writes one ONNX node, named after the current graph node."""
        self._touched = True
        if not onnx.defs.has(op_type, self.opset, ""):
            raise UnsupportedError(f"{self._current}: operator set {self.opset} has no {op_type}")
        name = self._fresh(self._current) if self._current not in outputs else self._current
        proto = helper.make_node(op_type, list(inputs), list(outputs), name=name)
        for key, value in sorted((attributes or {}).items()):
            proto.attribute.append(helper.make_attribute(key, value))
        self._nodes.append(proto)

    def calculated(
        self, op_type: str, inputs: Sequence[str], attributes: Mapping[str, OnnxAttribute] | None = None
    ) -> str:
        """The output of an ONNX node, written before or now: what was written before can be read."""
        key = (op_type, tuple(inputs), tuple(sorted((attributes or {}).items())))
        if key not in self._calculated:
            self._calculated[key] = self.temporary("size")
            self.node(op_type, inputs, [self._calculated[key]], attributes)
        return self._calculated[key]

    def constant(self, array: Array, hint: str) -> str:
        """The name of an initialiser with that content."""
        self._touched = True
        digest = hashlib.blake2b(digest_size=32)
        for piece in pieces(array):
            digest.update(piece)
        key = (str(array.dtype), array.shape, digest.digest())
        if key not in self._interned:
            name = self._fresh(f"{PREFIX}{hint}_{len(self._interned)}")
            self._interned[key] = name
            if array.nbytes >= self._spilling and array.dtype.kind in _SPILLED_KINDS:
                self._spilled[name] = SpilledTensor.of(array)
            else:
                self._initializers.append(numpy_helper.from_array(array, name))
        return self._interned[key]

    def temporary(self, hint: str) -> str:
        """A fresh tensor name prefixed by that of the current node."""
        return self._fresh(f"{self._current}/{hint}")


def _trimmed(shape: Sequence[object]) -> tuple[object, ...]:
    """The shape without leading axes of 1."""
    start = 0
    while start < len(shape) and shape[start] == 1:
        start += 1
    return tuple(shape[start:])

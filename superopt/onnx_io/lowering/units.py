"""Units of ONNX output: copied nodes, new nodes, aliases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import onnx

from superopt.ir.graph import Value
from superopt.onnx_io.emit.recipes import Recipe
from superopt.onnx_io.files.stored import StoredTensor
from superopt.onnx_io.lowering.kept import KeptNode


@dataclass(frozen=True, slots=True)
class Original:
    """Source of the graph: its ONNX nodes, those that are kept, and existing names. ``stored`` are the
    constants that can be read by their label: initialisers (None) and Constant nodes (their index). ``dead``
    are nodes that were never read; they are kept."""

    nodes: Sequence[onnx.NodeProto] = ()
    kept: Mapping[int, KeptNode] = field(default_factory=dict[int, KeptNode])
    names: Mapping[Value, str] = field(default_factory=dict[Value, str])
    stored: Mapping[str, int | None] = field(default_factory=dict[str, "int | None"])
    taken: frozenset[str] = frozenset()
    dead: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Stored:
    """A copied ONNX node: the values that it defines, the value or fixed name in each slot, its captures."""

    index: int
    defines: tuple[Value | None, ...]
    inputs: tuple[Value | str, ...]
    captures: tuple[tuple[str, Value], ...] = ()


@dataclass(frozen=True, slots=True)
class Copy:
    """An Identity that gives a value a second name."""

    name: str
    value: Value


Unit: TypeAlias = "Recipe | Stored | Copy"


@dataclass(frozen=True)
class Written:
    """ONNX nodes in order, new initialisers, further ones in temporary files, labels of stored constants that
    are read, names of values."""

    nodes: tuple[onnx.NodeProto, ...]
    initializers: tuple[onnx.TensorProto, ...]
    spilled: Mapping[str, StoredTensor]
    constants: frozenset[str]
    names: Mapping[Value, str]
    untouched: bool

"""Read an ONNX model from a path, bytes, a proto or an onnx-ir model, and reject invalid ones."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

import onnx
from google.protobuf.message import DecodeError

from superopt.errors import InvalidModelError
from superopt.onnx_io.files.external import (
    check_external_data,
    check_inline_data,
    external_place,
    is_external,
    is_stub,
    stored_tensor,
)
from superopt.onnx_io.files.stored import StoredTensor
from superopt.onnx_io.files.tolerated import repaired, with_shapes
from superopt.onnx_io.protos import (
    IR_WITH_FREE_INITIALIZERS,
    constant_tensor,
    default_opset,
    names_within,
    tensors_in_model,
)
from superopt.onnx_io.sizes.inference import without_weights

if TYPE_CHECKING:
    import onnx_ir

ModelSource: TypeAlias = "str | Path | bytes | onnx.ModelProto | onnx_ir.Model"
WhyRefused: TypeAlias = "Callable[[bytes | Path], str]"
"""The reason why a runtime does not load a model, empty if it does."""


@dataclass(frozen=True, eq=False)
class SourceModel:
    """A valid ONNX model, immutable. ``tensors`` are the initialisers of the main graph, memory-mapped if
    external; ``proto`` holds their contents only where they are stored inline. ``name`` is the file's, for
    messages. ``came_from`` is the model before repairs, or before known sizes became initialisers.
    ``warnings`` are defects that do not prevent running it. Axes whose dimensions have one of the names
    ``apart`` may differ in size. ``frozen`` are sizes that the model was specialised to on request
    (``freezing``), ``adapted`` describes what else was changed on request (``adapting``), and ``unadapted``
    is the model before both, of which it may be but a part (``cutting``). ``folded`` is the number of nodes
    that were computed in advance (``simplify``), ``prepared`` describes what else was rewritten before
    lifting."""

    proto: onnx.ModelProto
    tensors: Mapping[str, StoredTensor]
    base: Path
    name: str
    given: bytes | None = None
    came_from: SourceModel | None = None
    warnings: tuple[str, ...] = ()
    apart: frozenset[str] = frozenset()
    frozen: Mapping[str, int] = field(default_factory=dict[str, int])
    adapted: tuple[str, ...] = ()
    unadapted: SourceModel | None = None
    is_part: bool = False
    folded: int = 0
    prepared: tuple[str, ...] = ()

    @property
    def received(self) -> SourceModel:
        """The model as given, before anything was changed on request."""
        return self.as_given if self.unadapted is None else self.unadapted

    @property
    def as_given(self) -> SourceModel:
        """The model as given; the same object where nothing was repaired or simplified (``simplify``)."""
        return self if self.came_from is None else self.came_from.as_given

    @cached_property
    def names(self) -> frozenset[str]:
        """Every name of a value or node in the graph and its subgraphs."""
        return frozenset(names_within(self.proto.graph))

    @cached_property
    def original(self) -> bytes:
        """The model file as given."""
        return self.as_given.proto.SerializeToString() if self.given is None else self.given

    @cached_property
    def sha256(self) -> str:
        """Identifies the model file in reports."""
        return hashlib.sha256((self.unadapted or self).original).hexdigest()

    @cached_property
    def opset(self) -> int | None:
        """The version of the standard operators, None if the model imports none."""
        return default_opset(self.proto.opset_import)

    @cached_property
    def has_external_data(self) -> bool:
        """Whether any tensor is outside the model file (or would be, if an in-memory model were saved)."""
        return any(is_external(tensor) for tensor in tensors_in_model(self.as_given.proto))

    @cached_property
    def overridable(self) -> frozenset[str]:
        """Initialisers that a caller may override, which are therefore not constants."""
        if self.proto.ir_version < IR_WITH_FREE_INITIALIZERS:
            return frozenset()
        return frozenset(self.tensors).intersection(value.name for value in self.proto.graph.input)

    @cached_property
    def constants(self) -> Mapping[str, StoredTensor]:
        """Every tensor of the main graph with fixed content: initialisers and outputs of Constant nodes."""
        found = {name: tensor for name, tensor in self.tensors.items() if name not in self.overridable}
        for node in self.proto.graph.node:
            if node.op_type == "Constant" and node.domain in ("", "ai.onnx") and node.output:
                tensor = constant_tensor(node)
                if tensor is not None:
                    found[node.output[0]] = stored_tensor(tensor, self.base)
        return found

    @cached_property
    def fixed_reason(self) -> str | None:
        """Why the model cannot be rewritten at all, if so."""
        if self.proto.training_info:
            return "the model has training_info, which refers to nodes and weights by name"
        if self.proto.graph.sparse_initializer:
            return "the model has sparse initialisers"
        if self.opset is None:
            return "the model imports no standard operators"
        if self.opset < OLDEST_OPSET:
            return f"operator set {self.opset} is older than {OLDEST_OPSET}, where broadcasting was different"
        return None


OLDEST_OPSET = 7


def load_model(source: ModelSource, why_refused: WhyRefused | None = None, called: str = "") -> SourceModel:
    """Reads and validates a model. Raises InvalidModelError with one sentence for a file that is missing,
    unreadable, empty or not an ONNX model, for cycles, for external data that is missing, too short, or
    outside the model's directory, and for a model that the ONNX checker rejects, unless ``why_refused`` gives
    no reason for which a runtime does not load it. A file that is a temporary copy of what the user gave is
    ``called`` that in messages."""
    if isinstance(source, onnx.ModelProto):
        copy = onnx.ModelProto()
        copy.CopyFrom(source)
        return _checked(copy, None, Path(), "the model", why_refused, in_file=None)
    if isinstance(source, bytes):
        return _checked(_parsed(source, "the model"), source, Path(), "the model", why_refused, in_file=None)
    if not isinstance(source, str | PathLike):
        return _from_onnx_ir(source, why_refused)
    path = Path(source)
    content, name, base = _read(path), called or str(path), path.absolute().parent
    proto = _parsed(content, name)
    if called:
        _require_beside(proto, base, name)
    return _checked(proto, content, base, name, why_refused, in_file=path)


def external_locations(path: Path) -> tuple[str, ...]:
    """Paths, relative to the model at ``path``, of the files that hold its tensors; raises
    InvalidModelError."""
    source = load_model(path)
    outside = filter(is_external, tensors_in_model(source.proto))
    return tuple(dict.fromkeys(external_place(tensor, source.name).location for tensor in outside))


def _require_beside(proto: onnx.ModelProto, base: Path, name: str) -> None:
    """Raises InvalidModelError for a tensor whose file was not copied with the model."""
    for tensor in filter(is_external, tensors_in_model(proto)):
        location = external_place(tensor, name).location
        if not (base / location).exists():
            raise InvalidModelError(
                f"{name}: tensor {tensor.name!r} is stored in {location!r}, which is not next to it; give "
                "the model by its path"
            )


def _read(path: Path) -> bytes:
    try:
        if path.is_dir():
            raise InvalidModelError(f"{path} is a directory; expected an ONNX file")
        return path.read_bytes()
    except FileNotFoundError:
        raise InvalidModelError(f"{path} does not exist") from None
    except (OSError, ValueError) as error:
        raise InvalidModelError(f"{path} cannot be read: {error}") from error


def _parsed(content: bytes, name: str) -> onnx.ModelProto:
    if not content:
        raise InvalidModelError(f"{name} is empty; expected an ONNX model")
    try:
        proto = onnx.ModelProto.FromString(content)
    except DecodeError:
        kind = "a text file" if _is_text(content[:4096]) else "not an ONNX model, or a truncated one"
        raise InvalidModelError(
            f"{name} is {kind}; expected an ONNX model in binary protobuf format"
        ) from None
    if not proto.ir_version or not proto.HasField("graph"):
        raise InvalidModelError(
            f"{name} is not an ONNX model: it has no {'graph' if proto.ir_version else 'IR version'}"
        )
    return proto


def _is_text(start: bytes) -> bool:
    try:
        return start.decode().isprintable() or not set(start) & set(b"\x00\x01\x02\x03\x04\x05\x06\x07\x08")
    except UnicodeDecodeError:
        return False


def _checked(
    proto: onnx.ModelProto,
    given: bytes | None,
    base: Path,
    name: str,
    why_refused: WhyRefused | None,
    *,
    in_file: Path | None,
) -> SourceModel:
    for tensor in tensors_in_model(proto):
        if not is_external(tensor):
            check_inline_data(tensor, name)
        elif in_file is not None:
            check_external_data(tensor, base, name)
        else:
            raise InvalidModelError(
                f"{name} keeps tensor {tensor.name!r} in another file: give the path of the model"
            )
    tensors = {tensor.name: stored_tensor(tensor, base) for tensor in proto.graph.initializer}
    model = SourceModel(proto, tensors, base, name, given)
    complaint = _complaint(proto, name, in_file)
    if complaint is None:
        return model
    reason = why_refused and why_refused(in_file or given or proto.SerializeToString())
    return _tolerated(model, complaint, in_file, reason)


def _tolerated(model: SourceModel, complaint: str, in_file: Path | None, reason: str | None) -> SourceModel:
    """A repaired copy of a model that the ONNX checker rejects. One that does not run either, for the
    ``reason`` if that is known, perhaps for operators that the runtime does not know, is taken only if the
    checker misses no more than shapes. Raises InvalidModelError."""
    proto, repairs = repaired(model.proto)
    if reason != "" and _complaint(with_shapes(model.proto), model.name, in_file) is not None:
        why = f"{complaint.removesuffix('.')}; {reason}" if reason else complaint
        raise InvalidModelError(f"{model.name} is not a valid ONNX model: {why}")
    warnings = repairs or (f"the ONNX checker rejects it: {complaint}",)
    if proto is model.proto:
        return replace(model, warnings=warnings)
    return replace(model, proto=proto, came_from=model, warnings=warnings)


def _complaint(proto: onnx.ModelProto, name: str, in_file: Path | None) -> str | None:
    """The ONNX checker's message for the model without its weights, and problems of these. Only where nodes
    themselves have external tensors does it see the whole model with its path. Raises InvalidModelError for a
    cycle."""
    _refuse_cycles(proto.graph, name)
    names = [tensor.name for tensor in proto.graph.initializer]
    twice = next((tensor for tensor, times in Counter(names).items() if times > 1), None)
    if twice is not None:
        return f"two initialisers are called {twice!r}"
    if proto.ir_version < IR_WITH_FREE_INITIALIZERS:
        missing = set(names).difference(value.name for value in proto.graph.input)
        if missing:
            return (
                f"in IR version {proto.ir_version} the initialiser {min(missing)!r} must be a graph input too"
            )
    skeleton = without_weights(proto)
    reads_files = in_file is not None and any(is_external(tensor) for tensor in tensors_in_model(skeleton))
    try:
        onnx.checker.check_model(str(in_file) if reads_files else skeleton)  # pyright: ignore[reportUnknownMemberType]
    except (onnx.checker.ValidationError, ValueError) as error:
        return " ".join(str(error).split()).split(" ==> Context")[0]
    return None


def _refuse_cycles(graph: onnx.GraphProto, name: str) -> None:
    """Names a node on the cycle; the checker only reports "not sorted"."""
    producer = {output: index for index, node in enumerate(graph.node) for output in node.output if output}
    sources = {
        index: [producer[source] for source in node.input if source in producer]
        for index, node in enumerate(graph.node)
    }
    try:
        TopologicalSorter(sources).prepare()
    except CycleError as error:
        index = cast("int", error.args[1][0])
        node = graph.node[index]
        raise InvalidModelError(
            f"{name} has a cycle: node {node.name or index!r} ({node.op_type}) needs itself"
        ) from None


def _from_onnx_ir(model: onnx_ir.Model, why_refused: WhyRefused | None) -> SourceModel:
    """External weights, and large ones of a model over 2 GB, stay in the onnx-ir model; the proto gets stubs
    for them."""
    kind = type(model)
    if kind.__module__.partition(".")[0] != "onnx_ir":
        raise InvalidModelError(
            f"model: expected a path, bytes, an onnx.ModelProto or an onnx_ir.Model, got {kind.__qualname__}"
        )
    from superopt.onnx_io.files import from_onnx_ir

    name = "the model"
    proto, outside = from_onnx_ir.read(model, name)
    for tensor in tensors_in_model(proto):
        if not is_external(tensor):
            check_inline_data(tensor, name)
        elif not is_stub(tensor):
            raise InvalidModelError(
                f"{name} keeps tensor {tensor.name!r} of a node in another file: give the path of the model"
            )
    tensors = {t.name: outside.get(t.name) or stored_tensor(t, Path()) for t in proto.graph.initializer}
    source = SourceModel(proto, tensors, Path(), name)
    complaint = _complaint(proto, name, None)
    if complaint is None:
        return source
    reason = None if outside else why_refused and why_refused(proto.SerializeToString())
    return _tolerated(source, complaint, None, reason)

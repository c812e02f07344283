"""Models as files or bytes that the runtime can open, of any size."""

from __future__ import annotations

import tempfile
from pathlib import Path

from superopt.errors import InvalidModelError, InvalidOptionError
from superopt.ir.plan import Plan
from superopt.onnx_io import LiftedModel, LoweredModel, lower, stored_bytes
from superopt.optimizer.cost.runtime.session import LoadedModel, ModelFile, RuntimeRefusedError


def why_refused(model: ModelFile) -> str:
    """The reason why the runtime does not load a model, empty if it does; used by ``load_model`` where the
    ONNX checker rejects it."""
    try:
        LoadedModel(model, threads=1)
    except RuntimeRefusedError as refusal:
        return str(refusal)
    return ""


def loads_lowered(model: LoweredModel) -> bool:
    """Whether the runtime loads a model that is not written yet."""
    with tempfile.TemporaryDirectory(prefix="superopt-") as directory:
        path = Path(directory) / "model.onnx"
        model.save(path)
        return not why_refused(path)


def runnable_original(lifted: LiftedModel, directory: Path) -> ModelFile:
    """The original: its bytes, or its own file when it has external weights; else a copy in ``directory``."""
    source = lifted.source
    if not source.has_external_data:
        return source.original
    path = source.base / Path(source.name).name
    if source.given is not None and path.is_file():
        return path
    return _saved(lower(lifted, lifted.graph, Plan()), directory / "original.onnx")


def runnable(model: LoweredModel, directory: Path) -> ModelFile:
    """A rewritten model: the bytes that would be returned; in ``directory`` when it is too large for one
    file."""
    if not model.source.has_external_data:
        try:
            return model.to_bytes()
        except InvalidModelError:
            pass
    return _saved(model, directory / "rewritten.onnx")


def quick_to_open(model: LoweredModel, path: Path) -> ModelFile:
    """A model for timing, at ``path`` with its weights beside it: the runtime maps them into memory, which
    takes a fifth of the time that it takes to read them out of one file. Where the disk has no room, the
    model as it would be returned."""
    if model.source.has_external_data:
        return runnable(model, path.parent)
    try:
        model.save_with_data(path)
    except InvalidOptionError:
        return runnable(model, path.parent)
    return path


def weight_bytes(lifted: LiftedModel) -> int:
    """Bytes of all weights of the given model, including those in attributes and subgraphs."""
    return stored_bytes(lifted.source.as_given.proto)


def _saved(lowered: LoweredModel, path: Path) -> Path:
    lowered.save(path)
    return path

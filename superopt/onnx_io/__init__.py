"""ONNX input and output: reading models, lifting to graphs, lowering to ONNX, constant folding."""

from superopt.onnx_io.emit.bilinear_form import writes_open_images
from superopt.onnx_io.emit.emission import has_form
from superopt.onnx_io.emit.folding import fold
from superopt.onnx_io.files.saving import LoweredModel, require_destination
from superopt.onnx_io.files.source import ModelSource, SourceModel, external_locations, load_model
from superopt.onnx_io.lifting.models import LiftedModel, lift
from superopt.onnx_io.lowering.executed import Executed, executed
from superopt.onnx_io.lowering.models import build_model, lower
from superopt.onnx_io.protos import stored_bytes

__all__ = [
    "Executed",
    "LiftedModel",
    "LoweredModel",
    "ModelSource",
    "SourceModel",
    "build_model",
    "executed",
    "external_locations",
    "fold",
    "has_form",
    "lift",
    "load_model",
    "lower",
    "require_destination",
    "stored_bytes",
    "writes_open_images",
]

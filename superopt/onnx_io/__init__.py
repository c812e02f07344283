"""ONNX input and output: reading models, lifting to graphs, lowering to ONNX, constant folding."""

from superopt.onnx_io.emission import has_form
from superopt.onnx_io.executed import Executed, executed
from superopt.onnx_io.folding import fold
from superopt.onnx_io.lifting import LiftedModel, lift
from superopt.onnx_io.lowering import build_model, lower
from superopt.onnx_io.protos import stored_bytes
from superopt.onnx_io.saving import LoweredModel, require_destination
from superopt.onnx_io.source import ModelSource, SourceModel, external_locations, load_model

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
]

"""Conversions of a whole model that are no rewrites by rules: half precision, operators of ONNX Runtime."""

from superopt.optimizer.conversion.candidates import FLOAT16, FUSED, Candidate, candidates
from superopt.optimizer.conversion.record import Conversion, Conversions

__all__ = ["FLOAT16", "FUSED", "Candidate", "Conversion", "Conversions", "candidates"]

"""The operator registry: one class defines an operator's types, semantics, work and ONNX form."""

from superopt.ops import filled, lookup, matrix, normalization, reduction, shape
from superopt.ops.attributes import normalise_attribute
from superopt.ops.base import (
    OPERATORS,
    OnnxForm,
    Operator,
    Work,
    attribute_defaults,
    attribute_names,
    attributes_of,
    operator_from_attributes,
)
from superopt.ops.bilinear import convolution as bilinear_convolution
from superopt.ops.bilinear import product as bilinear_product
from superopt.ops.elementwise import activation, affine, arithmetic, order, precision, selection
from superopt.ops.gradients import convolution as convolution_gradients
from superopt.ops.gradients import pooling as pooling_gradients
from superopt.ops.gradients import transposes
from superopt.ops.images import convolution, pooling, transposed, upsampling
from superopt.ops.opaque import Opaque
from superopt.ops.sharded import parallel

__all__ = [
    "OPERATORS",
    "OnnxForm",
    "Opaque",
    "Operator",
    "Work",
    "activation",
    "affine",
    "arithmetic",
    "attribute_defaults",
    "attribute_names",
    "attributes_of",
    "bilinear_convolution",
    "bilinear_product",
    "convolution",
    "convolution_gradients",
    "filled",
    "lookup",
    "matrix",
    "normalise_attribute",
    "normalization",
    "operator_from_attributes",
    "order",
    "parallel",
    "pooling",
    "pooling_gradients",
    "precision",
    "reduction",
    "selection",
    "shape",
    "transposed",
    "transposes",
    "upsampling",
]

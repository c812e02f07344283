"""The operator registry: one class defines an operator's types, semantics, work and ONNX form."""

from superopt.ops import (
    activation,
    affine,
    convolution,
    elementwise,
    filled,
    matrix,
    normalization,
    order,
    parallel,
    pooling,
    reduction,
    shape,
    transposed,
    upsampling,
)
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
from superopt.ops.opaque import Opaque

__all__ = [
    "OPERATORS",
    "OnnxForm",
    "Opaque",
    "Operator",
    "Work",
    "activation",
    "affine",
    "attribute_defaults",
    "attribute_names",
    "attributes_of",
    "convolution",
    "elementwise",
    "filled",
    "matrix",
    "normalise_attribute",
    "normalization",
    "operator_from_attributes",
    "order",
    "parallel",
    "pooling",
    "reduction",
    "shape",
    "transposed",
    "upsampling",
]

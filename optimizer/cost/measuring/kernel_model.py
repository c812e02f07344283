"""Build a runnable ONNX model of a kernel: random weights and inputs, original constants and opaque nodes."""

from __future__ import annotations

import numpy as np

from superopt.ir.types import ElementType, TensorType
from superopt.onnx_io import build_model
from superopt.ops.base import attributes_of
from superopt.ops.opaque import Opaque
from superopt.ops.traits import traits
from superopt.optimizer.cost.kernels.kernel import Kernel
from superopt.optimizer.cost.machine import bytes_of
from superopt.optimizer.cost.measuring.random_content import DTYPES, array_of, shape_of, signed_array_of
from superopt.optimizer.cost.runtime.session import Array

_OPSET = 17
_INDEXED = ("Gather", "GatherElements", "GatherND")
_SHAPED = ("Reshape", "Expand")
_MAX_BYTES = 96 * 2**20


def can_be_built(kernel: Kernel) -> bool:
    """Whether the kernel can be built as a model of reasonable size with concrete shapes, into which all its
    windows fit: some poolings without outputs end the process of ONNX Runtime by a signal."""
    if kernel.opaque and kernel.origin is None:
        return False
    if any(traits(step.operator.name).windowed and not kernel.fits(step) for step in kernel.steps):
        return False
    types = [*(source.type for source in kernel.sources), *kernel.output_types]
    return all(t.element in DTYPES for t in types) and sum(map(bytes_of, types)) <= _MAX_BYTES


def kernel_model(kernel: Kernel) -> bytes:
    """The kernel as a model, in the oldest common opset that has all of its operators. Inputs and
    weights have the names of the kernel's ``named_sources``."""
    graph = kernel.to_graph()
    weights = {
        name: array_of(source.type) if source.content is None else _constant(source.type, source.content)
        for name, source in kernel.named_sources.items()
        if source.is_weight
    }
    if kernel.origin is not None:
        return kernel.origin.model(graph, weights.__getitem__)
    forms = (step.operator.onnx for step in kernel.steps)
    return build_model(graph, weights, max((_OPSET, *(form.since for form in forms if form is not None))))


def input_of(kernel: Kernel, index: int) -> Array:
    """Content for a computed source. Numbers that opaque nodes use as a shape or as indices affect the run:
    shapes match the output, indices are 0, as are integers that no opaque node reads. Numbers have both signs
    where the kernel compares, since some kernels branch."""
    type_ = kernel.sources[index].type
    if not kernel.opaque and type_.element.is_float and _compares(kernel):
        return signed_array_of(type_)
    if not kernel.opaque and type_.element.is_integer:
        return np.zeros_like(array_of(type_))
    if not kernel.opaque or type_.element is not ElementType.INT64:
        return array_of(type_)
    for step in kernel.steps:
        places = [place for place, operand in enumerate(step.operands) if operand == (-index - 1, 0)]
        if isinstance(step.operator, Opaque) and places and places[0] > 0:
            if step.operator.op_type in _INDEXED:
                return np.zeros_like(array_of(type_))
            if step.operator.op_type in _SHAPED and type_.shape == (step.types[0].rank,):
                return np.array(shape_of(step.types[0]), np.int64)
    return array_of(type_)


def _compares(kernel: Kernel) -> bool:
    """Whether the kernel compares numbers and is defined for those of both signs."""
    operators = [step.operator for step in kernel.steps]
    return any(operator.compares(attributes_of(operator)) for operator in operators) and all(
        operator.is_total(attributes_of(operator)) for operator in operators
    )


def _constant(type_: TensorType, content: bytes) -> Array:
    return np.frombuffer(content, DTYPES[type_.element]).reshape(shape_of(type_))


__all__ = ["can_be_built", "input_of", "kernel_model"]

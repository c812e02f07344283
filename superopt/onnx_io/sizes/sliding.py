"""Output sizes of opaque convolutions and poolings over any number of axes.

ONNX does not infer sizes from symbolic ones here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx
from onnx import AttributeProto

from superopt.errors import IllTypedError
from superopt.ir.dimensions import Dimension
from superopt.ir.types import ElementType, TensorType
from superopt.onnx_io.protos import STANDARD_DOMAINS
from superopt.ops.images.windows import Padding, output_size

_CONVOLUTIONS = ("Conv", "ConvInteger")
_POOLS = ("AveragePool", "LpPool", "MaxPool")
_AUTOMATIC: Mapping[str, str] = {"SAME_UPPER": "same_upper", "SAME_LOWER": "same_lower", "VALID": "valid"}


def slid(node: onnx.NodeProto, operands: Sequence[object]) -> TensorType | None:
    """The type of the first output of a convolution or pooling, from the types of its operands; None for
    other nodes, or where it is uncertain."""
    if node.domain not in STANDARD_DOMAINS or node.op_type not in (*_CONVOLUTIONS, *_POOLS) or not operands:
        return None
    attributes = {attribute.name: attribute for attribute in node.attribute}
    data, weight = operands[0], operands[1] if len(operands) > 1 else None
    if not isinstance(data, TensorType) or data.rank < 3 or _is_set(attributes, "ceil_mode"):
        return None
    if node.op_type in _POOLS:
        kernel, channels = _integers(attributes, "kernel_shape"), data.shape[1]
    elif isinstance(weight, TensorType) and weight.rank == data.rank:
        kernel, channels = weight.shape[2:], weight.shape[0]
    else:
        return None
    sizes = _sizes(data.shape[2:], kernel, attributes)
    if sizes is None:
        return None
    element = ElementType.INT32 if node.op_type == "ConvInteger" else data.element
    return TensorType(element, (*data.shape[:1], channels, *sizes))


def _sizes(
    sizes: Sequence[Dimension], kernel: Sequence[Dimension], attributes: Mapping[str, AttributeProto]
) -> tuple[Dimension, ...] | None:
    axes = len(sizes)
    strides = _integers(attributes, "strides") or (1,) * axes
    dilations = _integers(attributes, "dilations") or (1,) * axes
    pads = _integers(attributes, "pads") or (0,) * 2 * axes
    automatic = attributes["auto_pad"].s.decode() if "auto_pad" in attributes else "NOTSET"
    if not axes == len(kernel) == len(strides) == len(dilations) or len(pads) != 2 * axes:
        return None
    if automatic not in ("NOTSET", *_AUTOMATIC) or min(pads) < 0:
        return None
    found: list[Dimension] = []
    for axis in range(axes):
        margins = (pads[axis], 0, pads[axis + axes], 0)
        padding: Padding = margins if automatic == "NOTSET" else _AUTOMATIC[automatic]
        try:
            found.append(
                output_size("", sizes[axis], kernel[axis], strides[axis], dilations[axis], padding, 0)
            )
        except IllTypedError:
            return None
    return tuple(found)


def _integers(attributes: Mapping[str, AttributeProto], name: str) -> tuple[int, ...]:
    return tuple(attributes[name].ints) if name in attributes else ()


def _is_set(attributes: Mapping[str, AttributeProto], name: str) -> bool:
    return name in attributes and attributes[name].i != 0


__all__ = ["slid"]

"""The meaning of operators: ``SHAPES[name](attributes, *shapes)``, ``VALUES[name](attributes, *arrays)``."""

from __future__ import annotations

from collections.abc import Mapping

from tests.verifier.brute import bilinear, bilinear_product, elementwise, layout, windows
from tests.verifier.brute.basics import ShapeOf, ValueOf

SHAPES: Mapping[str, ShapeOf] = {
    **bilinear.SHAPES,
    **bilinear_product.SHAPES,
    **elementwise.SHAPES,
    **layout.SHAPES,
    **windows.SHAPES,
}
VALUES: Mapping[str, ValueOf] = {
    **bilinear.VALUES,
    **bilinear_product.VALUES,
    **elementwise.VALUES,
    **layout.VALUES,
    **windows.VALUES,
}

GRADIENTS = {
    "avgpool_gradient",
    "channel_sum",
    "conv_data_gradient",
    "conv_weight_gradient",
    "lookup_gradient",
    "matmul_weight_gradient",
    "maxpool_gradient",
    "sum_to",
    "unreshape",
    "upsample_linear_gradient",
}
"""No rule is about them yet. Dual numbers test their adjoint statements, ONNX Runtime tests them."""

IMPLICIT: Mapping[str, str] = {
    **dict.fromkeys(("avgpool_kernel", "identity_kernel", "band_kernel"), "channels"),
    **dict.fromkeys(("split0", "split1", "identity_matrix"), "size"),
    **dict.fromkeys(("ones", "full", "broadcast"), "shape"),
}
"""The attribute that a rule may leave to the types around it."""

_MATRIX, _VECTOR, _IMAGE = frozenset((2, 3, 4)), frozenset((1,)), frozenset((4,))
_SOME = frozenset((1, 2, 3, 4))
RANKS: Mapping[str, tuple[frozenset[int], ...]] = {
    **dict.fromkeys(
        ("maxpool", "avgpool", "enlarge", "flip", "lrn", "global_avgpool", "filter_transform"), (_IMAGE,)
    ),
    **dict.fromkeys(("upsample_nearest", "upsample_linear"), (_IMAGE,)),
    **dict.fromkeys(("channel_scale", "bias_add", "prelu"), (_SOME, _VECTOR)),
    "affine": (_SOME, _VECTOR, _VECTOR),
    "scale": (_SOME | {0}, frozenset((0,))),
    "bilinear_conv": (_IMAGE, _IMAGE),
    "bilinear_matmul": (_MATRIX, frozenset((2,))),
    "conv": (_IMAGE, _IMAGE),
    "conv_transpose": (_IMAGE, _IMAGE),
    "kernel_response": (_IMAGE, _VECTOR),
    "matmul": (_MATRIX, _MATRIX),
    "product_transform": (frozenset((2,)),),
}
"""Ranks that inputs may have, where an operator asks for some: a short cut, not a part of the meaning."""

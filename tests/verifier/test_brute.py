"""The second opinion on operators agrees with the first, and brute force finds what is known to be wrong."""

# ruff: noqa: E501

from __future__ import annotations

import numpy as np
import pytest

from superopt.domains import FloatDomain
from superopt.equations import parse_equation
from superopt.errors import IllTypedError
from superopt.ir.types import ElementType, TensorType
from superopt.ops.base import (
    OPERATORS,
    attributes_of,
    operator_from_attributes,
)
from superopt.ops.bilinear.filter_algorithms import KARATSUBA, FilterAlgorithm
from superopt.ops.bilinear.product_algorithms import DOT, STRASSEN
from superopt.rewriting import conditions
from tests.ops.algorithms import BY_HALVES, algorithm, product_algorithm
from tests.verifier.brute import search
from tests.verifier.brute.basics import IllTyped
from tests.verifier.brute.conditions import FUNCTIONS
from tests.verifier.brute.meaning import GRADIENTS, IMPLICIT, SHAPES, VALUES
from tests.verifier.rules import RIGHT, WRONG

NOT_IN_RULES = {"split", "opaque"} | GRADIENTS
PARALLEL = {"partition", "combine", "replicate", "reduce", "pipeline", "batch"}
"""Tested by their axioms, and by executing plans part by part in tests/optimizer/parallel."""

ALGORITHMS: tuple[tuple[FilterAlgorithm, FilterAlgorithm], ...] = (
    ((), ()),
    (KARATSUBA, ()),
    ((), BY_HALVES),
    (BY_HALVES, KARATSUBA),
    (KARATSUBA, algorithm(2, 3)),
    (KARATSUBA[::-1], ()),
    ((), (KARATSUBA[0], KARATSUBA[1], KARATSUBA[1])),
)
"""The last two compute no filter."""

PRODUCTS = (STRASSEN, DOT, product_algorithm(2, 1, 3), STRASSEN[::-1], (DOT[0], DOT[0], DOT[1]))
"""The last two compute no product."""

IMAGE = (2, 4, 5, 6)
CASES: list[tuple[str, dict[str, object], list[tuple[int, ...]]]] = [
    *((name, {}, [(2, 3), (2, 3)]) for name in ("add", "sum", "sub", "mul", "div", "maximum", "minimum")),
    *((name, {}, [(2, 3)]) for name in ("identity", "sqrt", "relu", "sigmoid", "tanh", "hard_swish", "silu", "erf", "gelu", "log", "absolute", "leaky_relu", "softplus", "elu", "sin", "cos")),
    *((name, {}, [(2, 3), (2, 3)]) for name in ("greater", "equal", "logical_and", "logical_or")),
    ("logical_not", {}, [(2, 3)]),
    *(("lookup", {}, [table, (3,)]) for table in ((4, 5), (1, 2), (3,), (2, 2, 2), ())),
    ("lookup", {}, [(4, 5), (2, 3)]),
    ("select", {}, [(2, 3), (2, 3), (2, 3)]),
    ("select", {}, [(3,), (2, 3), (2, 3)]),
    ("cast", {"to": "f64"}, [(2, 3)]),
    ("add", {}, [(2, 3), (3, 2)]),
    ("scale", {}, [(2, 3), ()]),
    ("scale", {}, [(2, 3), (1,)]),
    ("power", {"exponent": 3}, [(2, 3)]),
    ("power", {"exponent": 0.75}, [(2, 3)]),
    ("hard_sigmoid", {}, [(2, 3)]),
    ("hard_sigmoid", {"alpha": 1, "beta": 0.25}, [(2, 3)]),
    ("silu", {"alpha": 2}, [(2, 3)]),
    ("elu", {"alpha": 2}, [(2, 3)]),
    ("leaky_relu", {"alpha": -1}, [(2, 3)]),
    *(("clip", {"low": low, "high": high}, [(2, 3)]) for low, high in ((0, 1), (-1, 0.25), (1, -1))),
    ("gelu", {"approximate": "tanh"}, [(2, 3)]),
    *((name, {"axis": axis}, [(2, 3, 4)]) for name in ("softmax", "log_softmax") for axis in (0, 1, -1, 3)),
    ("exp", {}, [(2, 3)]),
    *((name, {"axis": axis}, [(2, 3, 4)]) for name in ("reduce_sum", "reduce_mean", "reduce_max", "reduce_min") for axis in (0, 1, -1, 3)),
    *(("rms_normalization", {"epsilon": 0.5}, shapes) for shapes in ([(2, 3), (3,)], [(3,), (3,)], [(2, 3), (2,)], [(), ()])),
    *(("layer_normalization", {}, [(2, 3), (3,), vector]) for vector in ((3,), (1,), (2, 3))),
    ("affine", {"axis": 1}, [(2, 3, 4), (3,), (3,)]),
    ("affine", {"axis": 1}, [(2, 3, 4), (3,), (4,)]),
    *((name, {"axis": axis}, [(2, 3, 4), (3,)]) for name in ("channel_scale", "bias_add", "prelu") for axis in (-2, 0)),
    ("batchnorm_scale", {}, [(3,), (3,)]),
    ("batchnorm_shift", {}, [(3,), (3,), (3,)]),
    *(("matmul", {}, shapes) for shapes in ([(2, 3), (3, 4)], [(5, 2, 3), (3, 4)], [(2, 3), (5, 3, 4)], [(5, 2, 3), (5, 3, 4)], [(5, 2, 3), (4, 3, 4)], [(2, 3), (2, 3)], [(3,), (3, 2)])),
    *(("transpose", {"perm": perm}, [(2, 3, 4)]) for perm in ((), (2, 0, 1), (1, 0))),
    ("identity_matrix", {"size": 3}, []),
    *(("conv", {"stride": stride, "padding": padding, "dilation": dilation, "activation": "relu"}, [IMAGE, (6, per_group, 3, 2 if padding != "same" else 3)])
      for stride in ((1, 1), (2, 3)) for padding in ("valid", "same", "same_upper", "same_lower", (0, 1, 2, 1)) for dilation in ((1, 1), (1, 2)) for per_group in (4, 2, 1)),
    *(("conv_transpose", {"stride": stride, "padding": padding, "dilation": dilation}, [IMAGE, (4, 3, 3, 2)])
      for stride in ((1, 1), (2, 3)) for padding in ("valid", "same", (1, 0, 2, 1), (9, 0, 9, 0)) for dilation in ((1, 1), (1, 2))),
    ("conv_transpose", {}, [IMAGE, (3, 4, 3, 3)]),
    *(("conv_transpose", {"stride": stride, "padding": "same", "dilation": (1, 2)}, [IMAGE, (4, 3, *kernel)])
      for stride in ((1, 1), (2, 3)) for kernel in ((3, 3), (1, 5), (2, 2))),
    *(("flip", {}, [shape]) for shape in ((2, 3, 1, 3), (2, 3, 2, 4), (2, 3, 4))),
    *(("filter_transform", {"rows": rows, "columns": columns}, [(3, 2, *kernel)])
      for rows, columns in ALGORITHMS for kernel in ((2, 2), (2, 3), (3, 2), (1, 5))),
    *(("bilinear_conv", {"rows": rows, "columns": columns, "padding": padding}, [IMAGE, (outputs, 2, *kernel)])
      for rows, columns in ALGORITHMS for padding in ("valid", "same", "same_upper", "same_lower", (0, 1, 2, 1)) for outputs in (36, 12, 4) for kernel in ((1, 1), (1, 3), (3, 1))),
    *(("filter_transform", {"rows": rows, "columns": columns, "zeros": zeros}, [(3, 2, *kernel)])
      for rows, columns in ALGORITHMS for zeros in ((1, 0), (0, 1), (1, 1), (0, 0)) for kernel in ((3, 4), (4, 3), (1, 3), (5, 5))),
    *(("bilinear_conv", {"rows": rows, "columns": columns, "padding": padding, "zeros": zeros}, [IMAGE, (outputs, 2, *kernel)])
      for rows, columns in ALGORITHMS for zeros in ((1, 0), (0, 1), (0, 0), (2, 0)) for padding in ("same", (3, 1, 2, 1)) for outputs in (36, 12) for kernel in ((2, 1), (1, 2), (2, 2), (3, 3))),
    *(("bilinear_conv", {"rows": rows, "columns": columns, "padding": padding, "zeros": zeros, "dilation": dilation}, [IMAGE, (outputs, 2, *kernel)])
      for rows, columns in ALGORITHMS for zeros in ((1, 0), (0, 0)) for padding in ("same", "valid", "same_upper", (3, 1, 2, 4)) for dilation in ((2, 2), (1, 3))
      for outputs in (36, 12) for kernel in ((2, 1), (1, 1), (1, 2))),
    *(("product_transform", {"algorithm": given}, [weight]) for given in PRODUCTS for weight in ((4, 6), (2, 3), (3, 2), (6, 2, 2))),
    *(("bilinear_matmul", {"algorithm": given}, [data, weight])
      for given in PRODUCTS for data in ((4, 6), (3, 6), (2, 4, 4), (3, 2, 2, 2), (6,)) for weight in ((21, 5), (6, 2), (4, 3), (7, 1), (2, 2, 2))),
    ("conv", {}, [IMAGE, (5, 2, 3, 3)]),
    ("conv", {}, [IMAGE, (5, 4, 9, 1)]),
    *((name, {"kernel": kernel, "stride": stride, "padding": padding}, [IMAGE])
      for name in ("maxpool", "avgpool") for kernel in ((3, 3), (2, 3)) for stride in ((1, 1), (2, 3)) for padding in ("valid", "same", "same_upper", "same_lower", (0, 1, 1, 0), (3, 0, 0, 0))),
    ("avgpool", {"kernel": (3, 3), "padding": "same", "includes_padding": 1}, [IMAGE]),
    ("enlarge", {"kernel": (5, 3)}, [(2, 3, 1, 3)]),
    ("enlarge", {"kernel": (4, 3)}, [(2, 3, 1, 3)]),
    ("avgpool_kernel", {"kernel": (2, 3), "channels": 3}, []),
    ("identity_kernel", {"kernel": (3, 1), "channels": 3}, []),
    ("identity_kernel", {"kernel": (2, 1), "channels": 3}, []),
    *(("band_kernel", {"size": size, "alpha": 0.5, "channels": 6}, []) for size in (1, 2, 3, 4)),
    *(("kernel_response", {}, [(4, per_group, 3, 2), (4,)]) for per_group in (1, 2, 3, 4)),
    *(("lrn", {"size": size, "alpha": 0.5, "beta": 0.75, "bias": 2}, [IMAGE]) for size in (1, 2, 3)),
    ("global_avgpool", {}, [IMAGE]),
    *((f"upsample_{kind}", {"stride": stride}, [IMAGE]) for kind in ("nearest", "linear") for stride in ((2, 2), (1, 3), (4, 5))),
    ("upsample_linear", {"stride": (2, 2)}, [(2, 3)]),
    ("concat", {"axis": -2}, [(2, 3, 4), (2, 1, 4)]),
    ("concat", {"axis": 0}, [(2, 3, 4), (2, 1, 4)]),
    *((name, {"axis": 1, "size": size}, [(2, 3, 4)]) for name in ("split0", "split1") for size in (1, 2, 3)),
    ("reshape", {"shape": (4, 6)}, [(2, 3, 4)]),
    ("reshape", {"shape": (4, 5)}, [(2, 3, 4)]),
    *(("broadcast", {"shape": shape}, [(3, 1)]) for shape in ((3, 4), (2, 3, 4), (2, 4), (1,))),
    ("ones", {"shape": (2, 3)}, []),
    ("full", {"value": 0.75, "shape": (2, 3)}, []),
]  # fmt: skip


def test_every_operator_of_rules_has_a_second_definition() -> None:
    assert set(SHAPES) == set(VALUES) == set(OPERATORS) - NOT_IN_RULES - PARALLEL
    assert set(IMPLICIT) == {name for name, op in OPERATORS.items() if op.implicit and name not in GRADIENTS}
    assert {name for name, _, _ in CASES} == set(SHAPES)
    assert set(FUNCTIONS) == set(conditions.FUNCTIONS)


@pytest.mark.parametrize(("name", "attributes", "shapes"), CASES)
def test_both_definitions_agree(
    name: str, attributes: dict[str, object], shapes: list[tuple[int, ...]]
) -> None:
    generator = np.random.default_rng(0)
    arrays = [generator.normal(size=shape) for shape in shapes]
    try:
        operator = operator_from_attributes(name, attributes)
        (type_,) = operator.infer(*(TensorType(ElementType.FLOAT, shape) for shape in shapes))
    except IllTypedError:
        with pytest.raises(IllTyped):
            SHAPES[name](attributes, *shapes)
        return
    own = {key: value for key, value in attributes_of(operator).items() if key in attributes}
    assert SHAPES[name](own, *shapes) == type_.shape
    stacked = [np.stack((array, array + 1)) for array in arrays]
    with np.errstate(all="ignore"):
        (expected,) = operator.evaluate(FloatDomain(), *stacked)
        for row, parts in enumerate(zip(*stacked, strict=True) if stacked else [()]):
            np.testing.assert_allclose(VALUES[name](own, *parts), expected[row], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("text", WRONG.values())
def test_brute_force_sees_through_wrong_rules(text: str) -> None:
    assert search(parse_equation(text), leaves=400, nodes=60_000).found


@pytest.mark.parametrize("text", RIGHT)
def test_brute_force_sees_nothing_wrong_with_right_rules(text: str) -> None:
    result = search(parse_equation(text), leaves=60, nodes=6000)
    assert result.found is None
    assert result.compared >= 10


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("sub(sqrt(x), sqrt(x))", "sub(x, x)"),
        ("mul(sqrt(x), sqrt(y))", "sqrt(mul(x, y))"),
        ("mul(div(x, y), y)", "mul(x, relu(relu(ones())))"),
        ("power[exponent=-1](power[exponent=-1](x))", "x"),
        ("sub(batchnorm_scale(v, w), batchnorm_scale(v, w))", "sub(v, v)"),
    ],
)
def test_brute_force_knows_which_side_is_undefined(source: str, target: str) -> None:
    assert search(parse_equation(f"{source} => {target}"), leaves=100, nodes=10_000).found is None
    assert search(parse_equation(f"{target} => {source}"), leaves=100, nodes=10_000).found
    assert search(parse_equation(f"{source} <=> {target}"), leaves=100, nodes=10_000).found


def test_a_small_space_is_exhausted() -> None:
    result = search(parse_equation("add(x, y) => add(y, x)"), leaves=10_000, nodes=100_000)
    assert (result.exhausted, result.compared) == (True, 1 + 3 + 9 + 27 + 81)

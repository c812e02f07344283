"""Types of operators outside of the standard are those of what ONNX Runtime computes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from superopt.ir import TensorType
from superopt.onnx_io import lift, load_model
from superopt.onnx_io.readers import readers_by_tensor
from superopt.onnx_io.sizes.foreign import RULES, foreign_types
from superopt.onnx_io.sizes.inference import infer_types, without_weights
from superopt.ops import Opaque
from tests.onnx_io.kit import DTYPES, feeds, model, node, run, tensor, value, weight

ML, MICROSOFT = "ai.onnx.ml", "com.microsoft"
FLOAT, INT8, UINT8 = TensorProto.FLOAT, TensorProto.INT8, TensorProto.UINT8
SCALE, ZERO = tensor("s", 0.1), tensor("z", 3, np.uint8)
LABELS = {"classlabels_int64s": [0, 1, 2]}
TREE: dict[str, object] = {
    "nodes_treeids": [0, 0, 0],
    "nodes_nodeids": [0, 1, 2],
    "nodes_featureids": [0, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_values": [0.0, 0.0, 0.0],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
}


def leaves(kind: str) -> dict[str, object]:
    given = {"treeids": [0, 0, 0], "nodeids": [1, 2, 2], "ids": [0, 1, 2], "weights": [1.0, 2.0, 3.0]}
    return {**TREE, **{f"{kind}_{name}": numbers for name, numbers in given.items()}}


Case = tuple[onnx.NodeProto, Sequence[int | str], Sequence[onnx.TensorProto], int]

CASES: dict[tuple[str, str], Case] = {
    (ML, "Imputer"): (node("Imputer", "x", "y", imputed_value_floats=[1.0]), ["n", 4], [], FLOAT),
    (ML, "LabelEncoder"): (
        node("LabelEncoder", "x", "y", keys_floats=[0.0, 1.0], values_floats=[2.0, 3.0]), ["n", 4], [], FLOAT,
    ),
    (ML, "LinearRegressor"): (
        node("LinearRegressor", "x", "y", targets=2, coefficients=[1.0] * 8, intercepts=[0.0, 1.0]),
        ["n", 4], [], FLOAT,
    ),
    (ML, "Normalizer"): (node("Normalizer", "x", "y", norm="L2"), ["n", 4], [], FLOAT),
    (ML, "Scaler"): (node("Scaler", "x", "y", offset=[1.0], scale=[2.0]), ["n", 2, 4], [], FLOAT),
    (ML, "TreeEnsembleClassifier"): (
        node("TreeEnsembleClassifier", "x", "label y", **leaves("class"), **LABELS), ["n", 4], [], FLOAT,
    ),
    (ML, "TreeEnsembleRegressor"): (
        node("TreeEnsembleRegressor", "x", "y", n_targets=3, **leaves("target")), ["n", 4], [], FLOAT,
    ),
    (MICROSOFT, "BiasGelu"): (node("BiasGelu", "x b", "y"), ["n", 4], [weight("b", 4)], FLOAT),
    (MICROSOFT, "DequantizeLinear"): (node("DequantizeLinear", "q s z", "y"), ["n", 4], [], FLOAT),
    (MICROSOFT, "DynamicQuantizeMatMul"): (
        node("DynamicQuantizeMatMul", "x w s z", "y"), ["n", 2, 4],
        [tensor("w", np.ones((4, 5)), np.uint8), SCALE, ZERO], FLOAT,
    ),
    (MICROSOFT, "FastGelu"): (node("FastGelu", "x", "y"), ["n", 4], [], FLOAT),
    (MICROSOFT, "Gelu"): (node("Gelu", "x", "y"), ["n", 4], [], FLOAT),
    (MICROSOFT, "MatMulIntegerToFloat"): (
        node("MatMulIntegerToFloat", "q w s s z z", "y"), ["n", 4],
        [tensor("w", np.ones((4, 5)), np.uint8)], FLOAT,
    ),
    (MICROSOFT, "MatMulNBits"): (
        node("MatMulNBits", "x w k", "y", K=32, N=5, bits=4, block_size=32), ["n", 32],
        [tensor("w", np.ones((5, 1, 16)), np.uint8), tensor("k", np.ones(5))], FLOAT,
    ),
    (MICROSOFT, "QLinearAdd"): (
        node("QLinearAdd", "q s z w s z s z", "y"), ["n", 4], [tensor("w", np.ones(4), np.uint8)], UINT8,
    ),
    (MICROSOFT, "QLinearLeakyRelu"): (
        node("QLinearLeakyRelu", "q s z s z", "y", alpha=0.1), ["n", 4], [], UINT8,
    ),
    (MICROSOFT, "QLinearMul"): (
        node("QLinearMul", "w s z q s z s z", "y"), ["n", 4], [tensor("w", np.ones((1, 1)), np.uint8)], UINT8,
    ),
    (MICROSOFT, "QLinearSigmoid"): (node("QLinearSigmoid", "q s z s z", "y"), ["n", 4], [], UINT8),
    (MICROSOFT, "QLinearSoftmax"): (
        node("QLinearSoftmax", "q s z s z", "y", axis=-1, opset=13), ["n", 4], [], UINT8,
    ),
    (MICROSOFT, "QuantizeLinear"): (node("QuantizeLinear", "x s z", "y"), ["n", 4], [SCALE, ZERO], UINT8),
    (MICROSOFT, "QuickGelu"): (node("QuickGelu", "x", "y"), ["n", 4], [], FLOAT),
    (MICROSOFT, "RotaryEmbedding"): (
        node("RotaryEmbedding", "x p c c", "y"), ["n", 2, 8],
        [tensor("p", [0], np.int64), weight("c", 4, 4)], FLOAT,
    ),
    (MICROSOFT, "SkipLayerNormalization"): (
        node("SkipLayerNormalization", "x x g", "y"), ["n", 2, 4], [weight("g", 4)], FLOAT,
    ),
    (MICROSOFT, "SkipSimplifiedLayerNormalization"): (
        node("SkipSimplifiedLayerNormalization", "x x g", "y"), ["n", 2, 4], [weight("g", 4)], FLOAT,
    ),
    ("", "SimplifiedLayerNormalization"): (
        node("SimplifiedLayerNormalization", "x g", "y"), ["n", 4], [weight("g", 4)], FLOAT,
    ),
}  # fmt: skip


@pytest.mark.parametrize("key", RULES, ids=lambda key: key[1])
def test_the_type_is_that_of_the_outcome(key: tuple[str, str]) -> None:
    domain, _ = key
    proto, shape, weights, element = CASES[key]
    nodes = [proto]
    proto.domain = domain
    stored = list(weights)
    if "q" in proto.input:
        nodes.insert(0, node("QuantizeLinear", "x s z", "q"))
        stored.extend((SCALE, ZERO))
    outputs = [onnx.ValueInfoProto(name=name) for name in proto.output]
    for output in outputs:
        output.type.tensor_type.elem_type = TensorProto.INT64 if output.name == "label" else element
    made = model(nodes, [value("x", shape)], outputs, stored, domains={ML: 3, MICROSOFT: 1})
    types = infer_types(made).types
    content = made.SerializeToString()
    for output, result in zip(outputs, run(content, feeds(content, n=3)), strict=True):
        type_ = types[output.name]
        assert isinstance(type_, TensorType)
        name = type_.element.value.lower()
        assert np.dtype(DTYPES.get(name, name)) == result.dtype
        assert len(type_.shape) == result.ndim
        sizes = zip(type_.shape, result.shape, strict=True)
        assert all(size == got for size, got in sizes if isinstance(size, int))
        assert str(type_.shape[0]) == "n"


@pytest.mark.parametrize(
    ("attributes", "given", "made"),
    [
        ({"keys_strings": ["a"], "values_int64s": [1]}, "STRING", "INT64"),
        ({"keys_int64s": [1], "values_strings": ["a"]}, "INT64", "STRING"),
        ({"keys_int64s": [1], "values_tensor": tensor("t", [0.5])}, "INT64", "FLOAT"),
        ({"classes_strings": ["a", "b"]}, "STRING", "INT64"),
        ({"classes_strings": ["a", "b"]}, "INT64", "STRING"),
        ({"keys_int64s": [1]}, "INT64", None),
    ],
)
def test_labels_have_the_type_of_their_list(
    attributes: dict[str, object], given: str, made: str | None
) -> None:
    encoder = helper.make_node("LabelEncoder", ["x"], ["y"], domain=ML, **attributes)
    found = foreign_types(encoder, {"x": value("x", ["n", 4], TensorProto.DataType.Value(given)).type})
    expected = {} if made is None else {"y": TensorProto.DataType.Value(made)}
    assert {name: type_.tensor_type.elem_type for name, type_ in found.items()} == expected


def test_what_stands_behind_such_operators_is_understood() -> None:
    """A scaler, principal components and a perceptron, as they come out of scikit-learn."""
    nodes = [
        helper.make_node("Scaler", ["x"], ["a"], domain=ML, offset=[0.5], scale=[2.0]),
        node("MatMul", "a v", "b"),
        helper.make_node("Normalizer", ["b"], ["c"], domain=ML, norm="L2"),
        node("MatMul", "c w", "d"),
        node("Add", "d k", "e"),
        node("Relu", "e", "f"),
        node("Softmax", "f", "y"),
    ]
    weights = [weight("v", 8, 4), weight("w", 4, 5), weight("k", 5)]
    output = value("y", None)
    made = model(nodes, [value("x", [None, 8])], [output], weights, domains={ML: 3})
    lifted = lift(load_model(made, lambda _: ""))
    assert [n.operator.op_type for n in lifted.graph if isinstance(n.operator, Opaque)] == [
        "Scaler",
        "Normalizer",
    ]


def test_long_lists_of_a_trained_model_are_left_out() -> None:
    """A tree of 5,001 nodes, and as many categories, whose number is a size of the output."""
    count = 5001
    trees = {name: [numbers[0]] * count for name, numbers in leaves("target").items()}  # type: ignore[index]
    made = model(
        [
            node("TreeEnsembleRegressor", "x", "y", n_targets=1, **trees),
            node("OneHotEncoder", "x", "z", cats_int64s=list(range(count)), zeros=1),
        ],
        [value("x", ["n", 4])],
        [value("y", ["n", 1]), value("z", ["n", 4, count])],
    )
    for part in made.graph.node:
        part.domain = ML
    made.opset_import.append(helper.make_opsetid(ML, 3))
    small = without_weights(made)
    assert [len(part.attribute[0].ints) for part in small.graph.node] == [0, count]
    assert small.ByteSize() < made.ByteSize() / 10
    types = infer_types(made).types
    assert [str(types[name]) for name in "yz"] == ["f32[n, 1]", f"f32[n, 4, {count}]"]
    readers = readers_by_tensor(load_model(made))["x"]
    assert max(len(numbers) for reader in readers for numbers in reader.integers.values()) == 1

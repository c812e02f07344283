"""Rewritten graphs as ONNX: names, order, weights and merged nodes, before and after real substitutions."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, numpy_helper

from superopt.equations import parse_equation
from superopt.errors import UnsupportedError
from superopt.ir import FusionGroup, Plan, Value
from superopt.onnx_io import build_model, fold, lift, load_model, lower
from superopt.onnx_io.files.stored import SpilledTensor
from superopt.ops.elementwise.arithmetic import Identity
from superopt.rewriting import apply_match, find_matches, substitutions_of
from tests.onnx_io.forcing import written_anew
from tests.onnx_io.kit import assert_same_results, graph, listing, model, node, run, tensor, value, weight
from tests.onnx_io.lowering.rewriting import COMMUTE, after, rewritten, touch
from tests.onnx_io.odd_models import ODD_MODELS

IMAGE = [value("x", [2, 4, 6, 6])]


def weights_of(content: bytes) -> dict[str, tuple[int, ...]]:
    initializers = onnx.ModelProto.FromString(content).graph.initializer
    return {stored.name: tuple(stored.dims) for stored in initializers}


AFFINE_INTO_CONV = """affine[axis=1](conv[stride=s, padding=p](x, w), a, b)
    => bias_add[axis=1](conv[stride=s, padding=p](x, channel_scale[axis=0](w, a)), b)"""


def test_batch_normalisation_disappears_into_the_convolution() -> None:
    nodes = [node("Conv", "x w", "c", name="conv"), node("BatchNormalization", "c s b m v", "n"),
             node("Relu", "n", "y", name="last")]  # fmt: skip
    weights = [weight("w", 3, 4, 3, 3), *(weight(name, 3) for name in "sbm"), tensor("v", [1, 2, 3])]
    result = after(model(nodes, IMAGE, [value("y", [2, 3, 4, 4])], weights), AFFINE_INTO_CONV)
    assert listing(result) == "n = Conv(x, superopt/weight_0, superopt/weight_1)\ny = Relu(n)"
    assert weights_of(result) == {"superopt/weight_0": (3, 4, 3, 3), "superopt/weight_1": (3,)}
    assert onnx.ModelProto.FromString(result).graph.node[1] == nodes[2]


@pytest.mark.parametrize("ir_version", [3, 8])
def test_large_computed_weights_of_a_model_in_files_are_in_files(tmp_path: Path, ir_version: int) -> None:
    nodes = [node("Conv", "x w", "c"), node("BatchNormalization", "c s b m v", "y")]
    weights = [weight("w", 512, 64, 3, 3), *(weight(n, 512) for n in "sbm"), tensor("v", np.ones(512))]
    inputs = [value("x", [1, 64, 6, 6])]
    if ir_version < 4:
        inputs += [value(stored.name, list(stored.dims)) for stored in weights]
    made = model(nodes, inputs, [value("y", [1, 512, 4, 4])], weights, ir_version=ir_version)
    content = made.SerializeToString()
    onnx.save(made, tmp_path / "outside.onnx", save_as_external_data=True, location="data")
    lifted = lift(load_model(tmp_path / "outside.onnx"))
    result = lower(lifted, rewritten(lifted, AFFINE_INTO_CONV), Plan())
    (spilled,) = (tensor for tensor in result.shared.values() if isinstance(tensor, SpilledTensor))
    assert spilled.shape == (512, 64, 3, 3)
    assert all(len(stored.raw_data) < 1 << 20 for stored in result.proto.graph.initializer)
    result.save(tmp_path / "again.onnx")
    onnx.checker.check_model(str(tmp_path / "again.onnx"), full_check=True)
    assert_same_results(content, result.to_proto().SerializeToString(), rtol=1e-4)
    saved = onnx.load(tmp_path / "again.onnx")
    assert_same_results(content, saved.SerializeToString(), rtol=1e-4)


def test_two_convolutions_become_one() -> None:
    nodes = [node("Conv", "x v", "a", pads=[1] * 4), node("Conv", "x w", "b", pads=[1] * 4),
             node("Relu", "a", "y")]  # fmt: skip
    weights = [weight("v", 3, 4, 3, 3), weight("w", 2, 4, 3, 3)]
    made = model(nodes, IMAGE, [value("y", [2, 3, 6, 6]), value("b", [2, 2, 6, 6])], weights)
    rule = """(conv[padding=p](x, v), conv[padding=p](x, w)) =>
        (split0[axis=1](conv[padding=p](x, concat[axis=0](v, w))),
         split1[axis=1](conv[padding=p](x, concat[axis=0](v, w))))"""
    result = after(made, rule)
    assert listing(result).splitlines()[0].endswith(" = Conv(x, superopt/weight_0)")
    assert "b = Split(superopt/conv_" in listing(result)
    assert set(weights_of(result).values()) == {(5, 4, 3, 3), (2,)}


def test_nested_concats_become_one() -> None:
    nodes = [node("Concat", "x x", "a", axis=1), node("Concat", "a x", "b", axis=-3), node("Relu", "b", "y")]
    made = model(nodes, IMAGE, [value("y", [2, 12, 6, 6])])
    result = after(made, "relu(concat[axis=a](x, y)) => concat[axis=a](relu(x), relu(y))")
    assert [line.split(" = ")[1].split("(")[0] for line in listing(result).splitlines()].count("Concat") <= 2
    lifted = lift(load_model(made))
    flat = lower(lifted, touch(lifted, "concat"), Plan()).to_bytes()
    assert listing(flat) == "b = Concat(x, x, x)\ny = Relu(b)"


def test_nested_splits_become_one_even_if_one_was_not_touched() -> None:
    nodes = [node("Split", "x two", "a b", axis=1), node("Split", "b one", "c d", axis=1),
             node("Relu", "c", "y")]  # fmt: skip
    weights = [tensor("two", [1, 3], np.int64), tensor("one", [1, 2], np.int64)]
    outputs = [value("y", [2, 1, 6, 6]), value("a", [2, 1, 6, 6]), value("d", [2, 2, 6, 6])]
    made = model(nodes, IMAGE, outputs, weights)
    lifted = lift(load_model(made))
    splits = lifted.graph.with_operator("split")
    for touched in (splits[:1], splits[1:], splits):
        result = lower(lifted, touch(lifted, *touched), Plan()).to_bytes()
        assert listing(result) == "a, c, d = Split(x, superopt/shape_0)\ny = Relu(c)"
        assert_same_results(made.SerializeToString(), result)


def test_untouched_nodes_and_their_order_stay() -> None:
    names = [f"t{i}" for i in range(6)]
    nodes = [node("Relu", "x", "t0", name="n0", doc_string="first")]
    nodes += [node("Sigmoid", a, b, name=b) for a, b in pairwise(names[:4])]
    nodes += [node("Add", "t3 t0", "t4"), node("Softsign", "t4", "t5", name="softsign")]
    made = model(nodes, [value("x", [3])], [value("t5", [3])])
    result = onnx.ModelProto.FromString(after(made, COMMUTE))
    for before, now in zip(nodes, result.graph.node, strict=True):
        assert before == now or now.op_type == "Add"
    assert [n.op_type for n in result.graph.node] == [n.op_type for n in nodes]


def test_new_nodes_come_before_their_first_reader() -> None:
    """An operand that was made later than the node that now reads it is moved, nothing else is."""
    nodes = [
        node("Relu", "x", "a"),
        node("Tanh", "x", "b"),
        node("Sigmoid", "b", "y"),
        node("Relu", "x", "c"),
        node("Add", "c a", "z"),
    ]
    lifted = lift(load_model(model(nodes, [value("x", [3])], [value("y", [3]), value("z", [3])])))
    early, late = (lifted.graph[i].value for i in lifted.graph.with_operator("relu"))
    editor = lifted.graph.edit()
    editor.redirect({early: late}, lifted.graph.nodes)
    tanh = lifted.graph.with_operator("tanh")[0]
    editor.set_inputs_of(tanh, (late,))
    assert listing(lower(lifted, editor.build(), Plan()).to_bytes()) == (
        "c = Relu(x)\nb = Tanh(c)\ny = Sigmoid(b)\nz = Add(c, c)"
    )


def test_a_part_of_a_node_can_be_used_on_its_own() -> None:
    """When a rewriting reads the convolution without its bias, the node falls into its parts."""
    nodes = [node("Conv", "x w b", "c"), node("Relu", "c", "y")]
    made = model(nodes, IMAGE, [value("y", [2, 3, 4, 4])], [weight("w", 3, 4, 3, 3), weight("b", 3)])
    lifted = lift(load_model(made))
    conv = lifted.graph[lifted.graph.with_operator("conv")[0]]
    editor = lifted.graph.edit()
    editor.set_outputs(
        (editor.add(lifted.graph[lifted.graph.outputs[0].node].operator, (conv.value,)).value,)
    )
    result = lower(lifted, editor.build(), Plan()).to_bytes()
    assert listing(result) == "superopt/conv_2 = Conv(x, w)\ny = Relu(superopt/conv_2)"


def test_weights_that_nothing_reads_any_more_go() -> None:
    made = ODD_MODELS["weights declared as inputs"]()
    lifted = lift(load_model(made))
    result = onnx.ModelProto.FromString(lower(lifted, touch(lifted, "affine"), Plan()).to_bytes())
    assert [v.name for v in result.graph.input] == ["x", "w", *(f"superopt/{n}" for n in
            ("weight_0", "weight_1", "zeros_2", "ones_3"))]  # fmt: skip
    assert {stored.name for stored in result.graph.initializer} == {v.name for v in result.graph.input} - {
        "x"
    }
    assert_same_results(made.SerializeToString(), result.SerializeToString())


def test_weights_are_folded_in_double_precision_and_rounded_once() -> None:
    half = TensorProto.FLOAT16
    nodes = [node("Mul", "x a", "m"), node("Mul", "m b", "y")]
    weights = [tensor("a", 0.1, np.float16), tensor("b", 3.0, np.float16)]
    made = model(nodes, [value("x", [3], half)], [value("y", [3], half)], weights)
    lifted = lift(load_model(made))
    changed = rewritten(lifted, "scale(scale(x, a), b) => scale(x, scale(a, b))")
    written = onnx.ModelProto.FromString(lower(lifted, changed, Plan()).to_bytes())
    assert [n.op_type for n in written.graph.node] == ["Mul"]
    (folded,) = fold(changed, lifted.weight).values()
    assert folded.dtype == np.float16
    assert folded == np.float16(np.float64(np.float16(0.1)) * 3)
    assert numpy_helper.to_array(written.graph.initializer[0]) == folded


def test_a_weight_is_not_stored_broadcast() -> None:
    nodes = [node("Add", "x k", "a"), node("Tanh", "a", "y")]
    made = model(nodes, [value("x", [64, 64])], [value("y", [64, 64])], [tensor("k", [[2.0]])])
    assert weights_of(after(made, COMMUTE)) == {"k": (1, 1)}


def test_a_product_does_not_broadcast_its_matrices() -> None:
    nodes = [node("Expand", "x s", "e"), node("MatMul", "e w", "y")]
    constants = [tensor("s", [2, 4, 8], np.int64), weight("w", 8, 3)]
    made = model(nodes, [value("x", [2, 4, 1])], [value("y", [2, 4, 3])], constants)
    lifted = lift(load_model(made))
    anew = lower(lifted, touch(lifted, "broadcast", "matmul"), Plan()).to_bytes()
    assert_same_results(made.SerializeToString(), anew)


def test_a_product_of_weights_that_is_much_larger_is_not_stored() -> None:
    nodes = [node("MatMul", "u v", "p"), node("MatMul", "x p", "y")]
    weights = [weight("u", 3000, 1), weight("v", 1, 3000)]
    made = model(nodes, [value("x", [1, 3000])], [value("y", [1, 3000])], weights)
    lifted = lift(load_model(made))
    result = lower(lifted, touch(lifted, "matmul"), Plan()).to_bytes()
    assert listing(result) == "superopt/matmul_5 = MatMul(u, v)\ny = MatMul(x, superopt/matmul_5)"
    assert len(result) < 100_000


def test_an_operator_that_the_operator_set_lacks_is_decomposed() -> None:
    nodes = [node("Mul", "x h", "a")]
    made = model(nodes, [value("x", [3, 4])], [value("a", [3, 4])], [tensor("h", 0.5)], opset=13)
    lifted = lift(load_model(made))
    for operator, expected in (
        ("hard_swish", "HardSigmoid Mul"),
        ("gelu", "Div Erf Add Mul Mul"),
        ("softmax[axis=0]", "Softmax"),
        ("log_softmax[axis=0]", "LogSoftmax"),
    ):
        (substitution,) = substitutions_of(parse_equation(f"scale(x, h) => {operator}(x)"), "false")
        (match,) = find_matches(lifted.graph, substitution)
        changed = apply_match(lifted.graph, match)
        assert changed is not None
        result = onnx.ModelProto.FromString(lower(lifted, changed.graph, Plan()).to_bytes())
        assert " ".join(n.op_type for n in result.graph.node) == expected


def test_fusion_groups_are_written_as_metadata() -> None:
    nodes = [node("Sigmoid", "x", "a"), node("Add", "a x", "b"), node("Relu", "b", "y")]
    made = model(nodes, [value("x", [3])], [value("y", [3])])
    made.metadata_props.add(key="author", value="me")
    lifted = lift(load_model(made))
    changed = rewritten(lifted, COMMUTE)
    members = tuple(
        changed.outputs[0].node if n == "relu" else changed.with_operator(n)[0] for n in ("add", "relu")
    )
    plan = Plan({members[0]: FusionGroup(members[0], members)})
    result = onnx.ModelProto.FromString(lower(lifted, changed, plan).to_bytes())
    properties = {entry.key: entry.value for entry in result.metadata_props}
    assert properties == {"author": "me", "superopt.fusion": '[["b", "y"]]'}


def test_sharding_specifications_follow_renamed_tensors() -> None:
    nodes = [node("Sigmoid", "x", "a"), node("Identity", "a", "y")]
    made = model(nodes, [value("x", [4])], [value("y", [4])], ir_version=11, opset=21)
    made.configuration.add(name="two", num_devices=2)
    made.graph.node[0].device_configurations.add(configuration_id="two").sharding_spec.add(tensor_name="a")
    result = onnx.ModelProto.FromString(after(made, "identity(x) => x"))
    assert result.configuration == made.configuration
    assert result.graph.node[0].device_configurations[0].sharding_spec[0].tensor_name == "y"


def test_runtime_shapes() -> None:
    """A reshape and a broadcast to sizes that are known at run time only."""
    nodes = [
        node("Transpose", "x", "t", perm=[1, 0, 2]),
        node("Reshape", "t s", "r"),
        node("Add", "r z", "y"),
    ]
    inputs = [value("x", ["a", "b", 6]), value("z", [1, 1])]
    made = model(nodes, inputs, [value("y", ["c", 6])], [tensor("s", [-1, 6], np.int64)])
    lifted = lift(load_model(made))
    content = made.SerializeToString()
    anew = lower(lifted, touch(lifted, "reshape", "transpose", "add"), Plan()).to_bytes()
    assert_same_results(content, anew, a=2, b=5)
    editor = lifted.graph.edit()
    broadcast = lifted.graph[lifted.graph.with_operator("broadcast")[0]]
    editor.set_outputs((editor.add(Identity(), (broadcast.value,)).value,))
    spread = lower(lifted, editor.build(), Plan()).to_bytes()
    onnx.checker.check_model(spread, full_check=True)
    assert listing(spread).splitlines()[-1].startswith("y = Expand(z, ")


def test_build_model_copies_opaque_nodes_of_its_source() -> None:
    made = ODD_MODELS["functions"]()
    lifted = lift(load_model(made))
    built = build_model(lifted.graph, lifted.weight, source=lifted.source)
    assert listing(built) == ("a = Relu(x)\nsuperopt/opaque_2 = Relu(a)\noutput_0 = Relu(superopt/opaque_2)")
    assert_same_results(made.SerializeToString(), built)
    with pytest.raises(UnsupportedError, match="an opaque node is written from its model only"):
        build_model(lifted.graph, lifted.weight)


def test_a_rewriting_may_not_touch_a_model_that_cannot_be_rewritten() -> None:
    made = model([node("Relu", "x", "y")], [value("x", [3])], [value("y", [3])])
    made.training_info.add().algorithm.CopyFrom(graph([], [], []))
    lifted = lift(load_model(made))
    editor = lifted.graph.edit()
    editor.set_outputs((Value(lifted.graph.inputs[0]),))
    with pytest.raises(UnsupportedError, match="cannot be rewritten: the model has training_info"):
        lower(lifted, editor.build(), Plan())


def test_node_count_counts_the_main_graph() -> None:
    lifted = lift(load_model(ODD_MODELS["loop in a branch"]()))
    assert lower(lifted, lifted.graph, Plan()).node_count == 3


def test_a_constant_term_comes_second() -> None:
    """ONNX Runtime replaces an epsilon that comes first when it fuses a layer normalisation."""
    steps = [
        node("ReduceMean", "x", "mean", axes=[-1]),
        node("Sub", "x mean", "centred"),
        node("Pow", "centred two", "squares"),
        node("ReduceMean", "squares", "variance", axes=[-1]),
        node("Add", "epsilon variance", "sum"),
        node("Sqrt", "sum", "deviation"),
        node("Div", "centred deviation", "quotient"),
        node("Mul", "quotient scale", "scaled"),
        node("Add", "scaled bias", "y"),
    ]
    weights = [tensor("epsilon", 1e-6), tensor("two", 2.0), weight("scale", 64), weight("bias", 64)]
    made = model(steps, [value("x", [4, 64])], [value("y", [4, 64])], weights).SerializeToString()
    inputs = {"x": 0.01 * np.random.default_rng(0).normal(size=(4, 64)).astype(np.float32)}
    fused = onnxruntime.InferenceSession(written_anew(made), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(fused.run(None, inputs)[0], run(made, inputs)[0], rtol=1e-4, atol=1e-5)

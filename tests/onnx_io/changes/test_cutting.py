"""The part of a model between some tensors and others computes what the model computes there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest

from superopt.errors import InvalidOptionError
from superopt.onnx_io import LoweredModel, load_model
from superopt.onnx_io.changes.cutting import cut
from tests.onnx_io.kit import feeds, graph, listing, model, node, run, tensor, value, weight

CHAIN = model(
    [
        node("MatMul", "x v", "a"),
        node("Relu", "a", "b"),
        node("MatMul", "b w", "c"),
        node("Add", "c z", "d"),
        node("Sigmoid", "d", "y"),
        node("Neg", "b", "side"),
    ],
    [value("x", ["n", 4]), value("z", ["n", 3])],
    [value("y", ["n", 3]), value("side", ["n", 5])],
    [weight("v", 4, 5), weight("w", 5, 3)],
)

CASES = {
    "between": (["b"], ["c"], "c = MatMul(b, w)"),
    "from the model's inputs": ([], ["c"], "a = MatMul(x, v)\nb = Relu(a)\nc = MatMul(b, w)"),
    "to the model's outputs": (
        ["b", "z"],
        [],
        "c = MatMul(b, w)\nd = Add(c, z)\ny = Sigmoid(d)\nside = Neg(b)",
    ),
    "several outputs": (["a"], ["side", "c"], "b = Relu(a)\nc = MatMul(b, w)\nside = Neg(b)"),
    "a weight becomes an input": (["b", "w"], ["c"], "c = MatMul(b, w)"),
    "behind an output": (["d"], ["y"], "y = Sigmoid(d)"),
}


def part_of(given: onnx.ModelProto, inputs: Sequence[str], outputs: Sequence[str]) -> bytes:
    return LoweredModel.of_source(cut(load_model(given), inputs, outputs), {}).to_bytes()


@pytest.mark.parametrize(("inputs", "outputs", "nodes"), CASES.values(), ids=CASES.keys())
def test_a_part_computes_what_the_model_computes_there(
    inputs: list[str], outputs: list[str], nodes: str
) -> None:
    content = part_of(CHAIN, inputs, outputs)
    assert listing(content) == nodes
    part = onnx.ModelProto.FromString(content)
    assert [one.name for one in part.graph.output] == (outputs or ["y", "side"])
    if inputs:
        assert [one.name for one in part.graph.input] == inputs
    onnx.checker.check_model(part, full_check=True)  # pyright: ignore[reportUnknownMemberType]
    every = onnx.ModelProto()
    every.CopyFrom(CHAIN)
    names = dict.fromkeys((*inputs, *outputs, "y", "side"))
    del every.graph.output[:]
    every.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name != "w")
    given = feeds(CHAIN.SerializeToString())
    known = dict(
        zip([one.name for one in every.graph.output], run(every.SerializeToString(), given), strict=True)
    )
    known |= given | {t.name: onnx.numpy_helper.to_array(t) for t in CHAIN.graph.initializer}
    got = run(content, {one.name: known[one.name] for one in part.graph.input})
    for name, array in zip([one.name for one in part.graph.output], got, strict=True):
        np.testing.assert_allclose(array, known[name], rtol=1e-6)


def test_tensors_read_inside_branches_belong_to_the_part() -> None:
    branches = {
        f"{word}_branch": graph([node(operator, "b", word)], [], [value(word, None)])
        for word, operator in (("then", "Neg"), ("else", "Abs"))
    }
    nodes = [node("Relu", "x", "b"), node("If", "c", "d", **branches), node("Exp", "d", "y")]
    given = model(nodes, [value("x", [4])], [value("y", [4])], [tensor("c", 1, np.bool_)])
    assert listing(part_of(given, [], ["d"])) == "b = Relu(x)\nd = If(c)"
    assert listing(part_of(given, ["b"], ["d"])) == "d = If(c)"


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        (["bb"], [], "cut-input: the model has no tensor 'bb'; closest: 'b'"),
        ([], ["sid"], "cut-output: the model has no tensor 'sid'; closest: 'side'"),
        ([], ["x"], "cut-output: expected a computed tensor, and 'x' is not computed by any node"),
        (["b"], ["b"], "cut-output: expected a computed tensor, and 'b' is an input of the part"),
        (["b"], ["y"], "cut-input: 'b' do not determine .* need 'z': add --cut-input z, or a tensor"),
        (["d"], ["c"], "cut-input: no output of the part needs 'd'; leave it out"),
    ],
)
def test_what_is_no_part_is_refused(inputs: list[str], outputs: list[str], message: str) -> None:
    with pytest.raises(InvalidOptionError, match=f"^{message}"):
        cut(load_model(CHAIN), inputs, outputs)


def test_a_tensor_of_unknown_type_is_refused() -> None:
    nodes = [node("Nobody", "x", "a", domain="org.example"), node("Relu", "a", "y")]
    given = model(nodes, [value("x", [4])], [value("y", [4])], domains={"org.example": 1})
    with pytest.raises(InvalidOptionError, match="cut: the type of 'a' cannot be inferred"):
        cut(load_model(given), ["a"], [])

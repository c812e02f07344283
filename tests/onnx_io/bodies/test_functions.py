"""Model-local functions, put in place of their calls."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from superopt.ir import Plan
from superopt.onnx_io import lift, load_model, lower
from superopt.onnx_io.bodies.functions import with_functions_inlined
from superopt.optimizer.canonical import canonicalise
from tests.onnx_io.bodies.test_rewriting import all_feeds
from tests.onnx_io.kit import operators, run


def parsed(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17, "my" : 1]> agraph {text}')


def function(text: str, opset: int = 17) -> str:
    return f'<opset_import: ["" : {opset}, "my" : 1], domain: "my"> {text}'


CASES = {
    "two calls": (
        "(float[2,3] x) => (float[2,3] y) { a = my.f (x) y = my.f (a) }"
        + function("f (a) => (b) { t = Identity(a) b = Relu(t) }"),
        "Identity Relu Identity Relu",
    ),
    "an attribute": (
        "(float[2,3] x) => (float[3,2] y) { y = my.f<order = [1, 0]> (x) }"
        + function("f <order> (a) => (b) { t = Transpose<perm: ints = @order>(a) b = Relu(t) }"),
        "Transpose Relu",
    ),
    "a function that calls another": (
        "(float[2,3] x) => (float[2,3] y) { y = my.f (x) }"
        + function("f (a) => (b) { t = my.g(a) b = Neg(t) }")
        + function("g (a) => (b) { b = Relu(a) }"),
        "Relu Neg",
    ),
    "a call in a body": (
        "(bool c, float[2,3] x) => (float[2,3] y) { y = If (c) <then_branch = t () => (float[2,3] p)"
        " { p = my.f(x) }, else_branch = e () => (float[2,3] q) { q = Neg(x) }> }"
        + function("f (a) => (b) { t = Identity(a) b = Relu(t) }"),
        "If",
    ),
    "a branch in a function": (
        "(bool c, float[2,3] x) => (float[2,3] y) { y = my.f(c, x) }"
        + function(
            "f (c, a) => (b) { b = If (c) <then_branch = t () => (p) { p = Relu(a) },"
            " else_branch = e () => (q) { q = Neg(a) }> }"
        ),
        "If",
    ),
    "names of the model": (
        "(float[2,3] x) => (float[2,3] y, float[2,3] t) { t = Neg(x) y = my.f(t) }"
        + function("f (a) => (b) { t = Exp(a) x = Relu(t) b = Neg(x) }"),
        "Neg Exp Relu Neg",
    ),
    "a weight": (
        "(float[2,3] x) => (float[2,3] y) <float[3] w = {1,2,3}> { y = my.f(x, w) }"
        + function("f (a, w) => (b) { b = Add(a, w) }"),
        "Add",
    ),
    "another operator set": (
        "(float[2,3] x) => (float[2,3] y) { y = my.f (x) }"
        + function("f (a) => (b) { b = Neg(a) }", opset=13),
        "f",
    ),
}


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES.keys())
def test_an_inlined_function_computes_the_same(text: str, expected: str) -> None:
    model = parsed(text)
    source = with_functions_inlined(load_model(model))
    inlined, lifted = source.proto.SerializeToString(), lift(source)
    assert operators(inlined) == expected
    given = model.SerializeToString()
    for after in (inlined, lower(lifted, canonicalise(lifted).graph, Plan()).to_bytes()):
        onnx.checker.check_model(onnx.load_from_string(after))  # pyright: ignore[reportUnknownMemberType]
        for feeds in all_feeds(given):
            for one, other in zip(run(given, feeds), run(after, feeds), strict=True):
                np.testing.assert_allclose(other, one)


def test_a_function_that_a_kept_node_calls_is_called_still() -> None:
    model = parsed(CASES["two calls"][0])
    model.graph.node[1].name = "call"
    source = load_model(model)
    assert with_functions_inlined(source, ("call",)) is source


def test_a_model_without_calls_is_the_same() -> None:
    source = load_model(
        onnx.parser.parse_model(
            '<ir_version: 8, opset_import: ["" : 17]> agraph (float[2] x) => (float[2] y) { y = Relu(x) }'
        )
    )
    assert with_functions_inlined(source) is source

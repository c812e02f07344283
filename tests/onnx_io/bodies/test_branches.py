"""Branches of If nodes with known conditions, put in place of their nodes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from superopt.ir import Plan
from superopt.onnx_io import LoweredModel, SourceModel, lift, load_model, lower
from superopt.onnx_io.bodies.branches import with_known_branches
from superopt.onnx_io.bodies.rewriting import Body, BodyRewriting, places
from superopt.optimizer.canonical import canonicalise
from tests.onnx_io.bodies.test_rewriting import all_feeds, parsed
from tests.onnx_io.kit import operators, run


def always(_: LoweredModel) -> bool:
    return True


def written(source: SourceModel) -> bytes:
    lifted = lift(source)
    return lower(lifted, canonicalise(lifted).graph, Plan()).to_bytes()


SHAPED = """s = Shape(x) z = Constant<value = int64 {0}>() d = Gather<axis=0>(s, z)
    two = Constant<value = int64 {2}>() c = Equal(d, two)"""

CASES = {
    "a constant condition": (
        """(float[2,3] x) => (float[2,3] y) <bool c = {1}> {
        y = If (c) <then_branch = a () => (float[2,3] p) { p = Relu(x) },
                    else_branch = b () => (float[2,3] r) { r = Neg(x) }> }""",
        "Relu",
    ),
    "a condition that sizes decide": (
        f"""(float[2,3] x) => (float[M] y) {{ {SHAPED}
        y = If (c) <then_branch = a () => (float[K] p) {{ k = Constant<value = int64[1] {{-1}}>()
                        p = Reshape(x, k) }},
                    else_branch = b () => (float[L,O] r) {{ r = Neg(x) }}> }}""",
        "Constant Reshape",
    ),
    "the other branch": (
        f"""(float[3,3] x) => (float[3,3] y) {{ {SHAPED}
        y = If (c) <then_branch = a () => (float[3,3] p) {{ p = Relu(x) }},
                    else_branch = b () => (float[3,3] r) {{ r = Neg(x) }}> }}""",
        "Neg",
    ),
    "an unknown condition": (
        f"""(float[N,3] x) => (float[M,3] y) {{ {SHAPED}
        y = If (c) <then_branch = a () => (float[K,3] p) {{ p = Relu(x) }},
                    else_branch = b () => (float[L,3] r) {{ r = Neg(x) }}> }}""",
        "Shape Constant Gather Constant Equal If",
    ),
    "an output that is captured, and one of a constant": (
        """(float[2,3] x) => (float[2,3] y, float[2] z, float[2] v) <bool c = {1}> { w = Neg(x)
        y, z, v = If (c) <then_branch = a () => (float[2,3] p, float[2] k, float[2] q) <float[2] k = {1,2}> {
                              p = Identity(w) q = Relu(k) },
                          else_branch = b () => (float[2,3] r, float[2] t, float[2] u) {
                              r = Neg(x) t = Constant<value = float[2] {0, 0}>() u = Neg(t) }> }""",
        None,
    ),
    "the same names outside": (
        """(float[2,3] x) => (float[2,3] y, float[2,3] z) <bool c = {1}> {
        y = If (c) <then_branch = a () => (float[2,3] p) { t = Neg(x) p = Relu(t) },
                    else_branch = b () => (float[2,3] r) { r = Neg(x) }>
        t = Abs(x) z = If (c) <then_branch = a () => (float[2,3] p) { q = Exp(t) p = Relu(q) },
                               else_branch = b () => (float[2,3] r) { r = Neg(x) }> }""",
        None,
    ),
    "a branch in a branch": (
        """(float[2,3] x) => (float[2,3] y) <bool c = {1}> {
        y = If (c) <then_branch = a () => (float[2,3] p) { n = Not(c) q = Neg(x)
                        p = If (n) <then_branch = d () => (float[2,3] e) { e = Exp(q) },
                                    else_branch = f () => (float[2,3] g) { g = Abs(q) }> },
                    else_branch = b () => (float[2,3] r) { r = Neg(x) }> }""",
        "Neg Abs",
    ),
}


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES.keys())
def test_a_known_branch_computes_the_same(text: str, expected: str | None) -> None:
    model = parsed(text)
    given = model.SerializeToString()
    after = written(with_known_branches(load_model(model), always))
    onnx.checker.check_model(onnx.load_from_string(after))  # pyright: ignore[reportUnknownMemberType]
    if expected is None:
        assert "If" not in operators(after)
    else:
        assert operators(after) == expected
    for feeds in all_feeds(given):
        for one, other in zip(run(given, feeds), run(after, feeds), strict=True):
            np.testing.assert_allclose(other, one)


def test_a_model_that_would_not_load_stays() -> None:
    source = load_model(parsed(CASES["a constant condition"][0]))
    assert with_known_branches(source, lambda _: False) is source


def test_of_several_branches_those_stay_with_which_it_does_not_load() -> None:
    def loads(model: LoweredModel) -> bool:
        return "Exp" not in operators(model.to_bytes())

    found = with_known_branches(load_model(parsed(CASES["the same names outside"][0])), loads)
    assert operators(written(found)) == "Neg Relu Abs If"


def test_a_kept_node_stays() -> None:
    model = parsed(CASES["a constant condition"][0])
    model.graph.node[0].name = "choice"
    source = load_model(model)
    assert with_known_branches(source, always, ("choice",)) is source


LARGE = f"float[32,64] w = {{{','.join(['0.5'] * 2048)}}}"
"""More than is copied from model to model."""

IN_A_BODY = f"""(bool c, float[2,32] x) => (float[2,64] y) <bool known = {{1}}> {{
    y = If (c) <then_branch = a () => (float[2,64] p) {{
        p = If (known) <then_branch = d () => (float[2,64] e) <{LARGE}> {{ m = MatMul(x, w) e = Elu(m) }},
                        else_branch = f () => (float[2,64] g) <{LARGE}> {{ g = MatMul(x, w) }}> }},
                else_branch = b () => (float[2,64] r) <{LARGE}> {{ q = MatMul(x, w) r = Neg(q) }}> }}"""


def test_large_constants_of_a_known_branch_within_a_body_are_written() -> None:
    model = parsed(IN_A_BODY)
    given = model.SerializeToString()

    def rewritten(body: Body) -> LoweredModel:
        lifted = lift(with_known_branches(body.source, always, prefix=f"{body.path}/"))
        return lower(lifted, canonicalise(lifted).graph, Plan())

    source = load_model(model)
    after = written(BodyRewriting(source.proto, rewritten).enter(source))
    bodies = [place.graph for place in places(onnx.load_from_string(after).graph)]
    assert "If" not in [node.op_type for body in bodies for node in body.node]
    for feeds in all_feeds(given):
        for one, other in zip(run(given, feeds), run(after, feeds), strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-5)

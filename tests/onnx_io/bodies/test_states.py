"""States that a Loop or Scan passes on unchanged, read from outside."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from superopt.onnx_io import LoweredModel, load_model
from superopt.onnx_io.bodies.states import with_simple_control_flow
from tests.onnx_io.bodies.test_branches import always
from tests.onnx_io.bodies.test_rewriting import all_feeds, parsed
from tests.onnx_io.kit import run

HEAD = (
    "(float[2,3] x, int64 n) => (float[2,3] y, float[3,3] z)"
    " <bool on = {1}, float[3,3] w = {1,2,3,4,5,6,7,8,9}>"
)
LOOPS = {
    "a weight": (
        (
            "y, z = Loop (n, on, x, w) <body = b (int64 i, bool c, float[2,3] s, float[3,3] v)"
            " => (bool d, float[2,3] t, float[3,3] v) { d = Identity(c) m = MatMul(s, v) t = Tanh(m) }>"
        ),
        1,
    ),
    "through nodes that do nothing": (
        (
            "y, z = Loop (n, on, x, w) <body = b (int64 i, bool c, float[2,3] s, float[3,3] v)"
            " => (bool d, float[2,3] t, float[3,3] u) { d = Identity(c) m = MatMul(s, v) t = Tanh(m)"
            " e = Identity(v) u = Identity(e) }>"
        ),
        1,
    ),
    "of the same name as outside": (
        (
            "y, z = Loop (n, on, x, w) <body = b (int64 i, bool c, float[2,3] s, float[3,3] w)"
            " => (bool d, float[2,3] t, float[3,3] w) { d = Identity(c) m = MatMul(s, w) t = Tanh(m) }>"
        ),
        1,
    ),
    "read in a branch": (
        (
            "y, z = Loop (n, on, x, w) <body = b (int64 i, bool c, float[2,3] s, float[3,3] v)"
            " => (bool d, float[2,3] t, float[3,3] v) { d = Identity(c)"
            " t = If (c) <then_branch = p () => (float[2,3] q) { q = MatMul(s, v) },"
            " else_branch = r () => (float[2,3] o) { o = Identity(s) }> }>"
        ),
        1,
    ),
    "read by another state": (
        (
            "y, z = Loop (n, on, x, w) <body = b (int64 i, bool c, float[2,3] s, float[3,3] v)"
            " => (bool d, float[2,3] t, float[3,3] u) { d = Identity(c) t = MatMul(s, v) u = Neg(v) }>"
        ),
        0,
    ),
    "two that change places": (
        (
            "p = Add(w, w) q, y1, z = Loop (n, on, w, x, p) <body = b (int64 i, bool c, float[3,3] u,"
            " float[2,3] s, float[3,3] v) => (bool d, float[3,3] v, float[2,3] t, float[3,3] u)"
            " { d = Identity(c) t = MatMul(s, v) }> y = MatMul(y1, q)"
        ),
        0,
    ),
    "all states": (
        (
            "y, z = Loop (n, on, x, w) <body = b (int64 i, bool c, float[2,3] s, float[3,3] v)"
            " => (bool d, float[2,3] s, float[3,3] v) { d = Identity(c) }>"
        ),
        1,
    ),
    "of which nothing reads the result": (
        (
            "y, unread = Loop (n, on, x, w) <body = b (int64 i, bool c, float[2,3] s, float[3,3] v)"
            " => (bool d, float[2,3] t, float[3,3] v) { d = Identity(c) m = MatMul(s, v) t = Tanh(m) }>"
            " z = Identity(w)"
        ),
        1,
    ),
    "of a scan": (
        (
            "z, y = Scan <num_scan_inputs = 1, body = b (float[3,3] v, float[3] s)"
            " => (float[3,3] u, float[3] t) { u = Identity(v) m = MatMul(s, v) t = Tanh(m) }> (w, x)"
        ),
        1,
    ),
}


def _states(model: onnx.ModelProto) -> int:
    """The number of operands of the loop."""
    (node,) = (node for node in model.graph.node if node.op_type in ("Loop", "Scan"))
    return len(node.input)


@pytest.mark.parametrize(("text", "fewer"), LOOPS.values(), ids=LOOPS)
def test_what_never_changes_is_read_from_outside(text: str, fewer: int) -> None:
    model = parsed(f"{HEAD} {{ {text} }}")
    source = load_model(model)
    changed = with_simple_control_flow(source, always)
    assert (changed is source) == (not fewer)
    assert _states(model) - _states(changed.proto) == fewer
    assert len(changed.prepared) == bool(fewer)
    onnx.checker.check_model(changed.proto, full_check=True)
    before, after = (LoweredModel.of_derived(each).to_bytes() for each in (source, changed))
    for feeds in all_feeds(before):
        for expected, got in zip(run(before, feeds), run(after, feeds), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_a_node_that_is_kept_stays() -> None:
    text, _ = LOOPS["a weight"]
    model = parsed(f"{HEAD} {{ [steps] {text} }}")
    source = load_model(model)
    assert with_simple_control_flow(source, always, ("steps",)) is source
    assert with_simple_control_flow(source, always, ("others",)) is not source
    assert with_simple_control_flow(source, lambda _: False) is source


def test_the_path_of_a_body_is_told() -> None:
    source = load_model(parsed(f"{HEAD} {{ [steps] {LOOPS['a weight'][0]} }}"))
    changed = with_simple_control_flow(source, always, prefix="If_1/then_branch/")
    assert changed.prepared == (
        "If_1/then_branch/steps: a tensor that it passes on unchanged, read from outside",
    )


def test_states_in_turns_may_be_several() -> None:
    """All but those that change."""
    model = parsed(
        "(float[2,3] x, int64 n) => (float[2,3] y) <bool on = {1}, float[3,3] w = {1,2,3,4,5,6,7,8,9},"
        " float[3] b = {1,2,3}> { p, y, q = Loop (n, on, w, x, b) <body = g (int64 i, bool c, float[3,3] v,"
        " float[2,3] s, float[3] a) => (bool d, float[3,3] v, float[2,3] t, float[3] a)"
        " { d = Identity(c) m = MatMul(s, v) t = Add(m, a) }> }"
    )
    source = load_model(model)
    changed = with_simple_control_flow(source, always)
    (step,) = changed.prepared
    assert step == "Loop: 2 tensors that it passes on unchanged, read from outside"
    assert _states(changed.proto) == 3
    before, after = (LoweredModel.of_derived(each).to_bytes() for each in (source, changed))
    for feeds in all_feeds(before):
        np.testing.assert_array_equal(run(after, feeds)[0], run(before, feeds)[0])

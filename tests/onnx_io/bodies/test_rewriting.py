"""Bodies of If, Loop and Scan as models of their own."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from superopt.ir import Input, Plan
from superopt.onnx_io import LoweredModel, SourceModel, lift, load_model, lower
from superopt.onnx_io.bodies.loops import may_not_end
from superopt.onnx_io.bodies.rewriting import Body, BodyRewriting, Refused, places
from superopt.optimizer.canonical import canonicalise
from tests.onnx_io.body_models import CASES, REFUSED, constant
from tests.onnx_io.kit import DTYPES, Array, run, session


def parsed(text: str, opset: int = 17, ir_version: int = 8) -> onnx.ModelProto:
    head = f'<ir_version: {ir_version}, opset_import: ["": {opset}, "com.microsoft": 1]> agraph '
    return onnx.parser.parse_model(head + text)


class Visit:
    """Canonicalises every body, and records what is seen."""

    def __init__(self, model: onnx.ModelProto, keep: tuple[str, ...] = ()) -> None:
        self.given = load_model(model)
        self.bodies: dict[str, Body] = {}
        self.inputs: dict[str, str] = {}
        self.equal: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        self._rewriting = BodyRewriting(
            self.given.proto, self._rewrite, self.equal.__setitem__, self._refuse, keep=keep
        )
        self.source: SourceModel = self._rewriting.enter(self.given)
        lifted = lift(self.source)
        self.written = lower(lifted, canonicalise(lifted).graph, Plan()).to_bytes()

    def _rewrite(self, body: Body) -> LoweredModel | None:
        lifted = lift(self._rewriting.enter(body.source, f"{body.path}/"))
        self.bodies[body.path] = body
        graph = lifted.graph
        inputs = (graph[node] for node in graph.inputs)
        types = (
            f"{node.operator.label}: {node.types[0]}" for node in inputs if isinstance(node.operator, Input)
        )
        self.inputs[body.path] = ", ".join(types)
        canonical = canonicalise(lifted)
        return lower(lifted, canonical.graph, Plan()) if canonical.steps else None

    def _refuse(self, refused: Refused) -> None:
        self.refused[refused.path] = refused.why

    def operators(self) -> dict[str, str]:
        """The operators of every outermost body of the written model."""
        graph = onnx.load_from_string(self.written).graph
        return {place.path: " ".join(node.op_type for node in place.graph.node) for place in places(graph)}


def all_feeds(model: bytes) -> list[dict[str, Array]]:
    """Inputs for every condition and for 0 to 3 iterations."""
    generator = np.random.default_rng(0)
    found: list[dict[str, Array]] = []
    for number in range(4):
        feeds: dict[str, Array] = {}
        for port in session(model).get_inputs():
            dtype = DTYPES[port.type.removeprefix("tensor(").removesuffix(")")]
            shape = [size if isinstance(size, int) else number + 1 for size in port.shape]
            drawn = generator.normal(size=shape)
            feeds[port.name] = np.asarray(drawn if dtype == np.float32 else np.full(shape, number)).astype(
                dtype
            )
            if dtype == np.bool_:
                feeds[port.name] = np.full(shape, number % 2 == 0)
        found.append(feeds)
    return found


@pytest.mark.parametrize("text", CASES.values(), ids=CASES.keys())
def test_a_model_with_rewritten_bodies_computes_the_same(text: str) -> None:
    model = parsed(text)
    given = model.SerializeToString()
    visit = Visit(model)
    onnx.checker.check_model(onnx.load_from_string(visit.written))  # pyright: ignore[reportUnknownMemberType]
    assert visit.source is not visit.given, "no body was rewritten"
    for feeds in all_feeds(given):
        for expected, got in zip(run(given, feeds), run(visit.written, feeds), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-5)


NOT_EVALUATED = ("an opaque operator", "an optional value", "scanned outputs", "passed on")
"""What the reference evaluator does not know; scanned outputs only of no iteration."""

REFERENCE = [name for name in CASES if name not in NOT_EVALUATED]


@pytest.mark.parametrize("name", REFERENCE)
def test_the_reference_evaluator_agrees(name: str) -> None:
    model = parsed(CASES[name])
    written = Visit(model).written
    for feeds in all_feeds(model.SerializeToString()):
        expected = ReferenceEvaluator(model).run(None, feeds)
        got = ReferenceEvaluator(onnx.load_from_string(written)).run(None, feeds)
        for one, other in zip(expected, got, strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-5)


@pytest.mark.parametrize("opset", [7, 8, 9, 10])
def test_operator_sets_before_11(opset: int) -> None:
    model = parsed(CASES["a captured input"], opset)
    visit = Visit(model)
    assert set(visit.operators().values()) == {"Relu"}
    for feeds in all_feeds(visit.written):
        for expected, got in zip(
            run(model.SerializeToString(), feeds), run(visit.written, feeds), strict=True
        ):
            np.testing.assert_allclose(got, expected)


def test_in_ir_version_3_constants_of_bodies_are_nodes() -> None:
    """Every initialiser must be an input there, and branches have none."""
    visit = Visit(parsed(CASES["a folded constant"], opset=8, ir_version=3))
    assert visit.operators()["y/then_branch"] == "Constant MatMul"
    onnx.checker.check_model(onnx.load_from_string(visit.written))  # pyright: ignore[reportUnknownMemberType]


def test_a_body_is_written_with_its_declarations() -> None:
    visit = Visit(parsed(CASES["a carried value"]))
    before, after = (
        next(places(graph)).graph
        for graph in (visit.given.proto.graph, onnx.load_from_string(visit.written).graph)
    )
    assert list(before.input) == list(after.input)
    assert list(before.output) == list(after.output)
    assert before.name == after.name


INPUTS = {
    "a carried value": "v: f32[2, 3]",
    "a carried value that grows": "v: f32[v.0, 3]",
    "a captured result": "z: f32[2, 3]",
    "a scan": "row: f32[3]",
}


@pytest.mark.parametrize(("name", "expected"), INPUTS.items(), ids=INPUTS.keys())
def test_sizes_that_an_iteration_may_change_are_open(name: str, expected: str) -> None:
    inputs = ", ".join(Visit(parsed(CASES[name])).inputs.values())
    assert expected in inputs


def test_declared_sizes_of_a_carried_value_are_not_trusted() -> None:
    """No runtime checks them: a loop runs although it grows what it declares to have two rows."""
    text = CASES["a carried value that grows"].replace("float[K,3] v", "float[2,3] v")
    assert "f32[v.0, 3]" in Visit(parsed(text)).inputs["y/body"]


def test_weights_of_the_outer_graph_are_stored_once() -> None:
    graph = onnx.load_from_string(Visit(parsed(CASES["a captured weight"])).written).graph
    assert [tensor.name for tensor in graph.initializer] == ["w"]
    assert not any(place.graph.initializer for place in places(graph))


def test_a_constant_that_no_body_reads_any_more_is_removed() -> None:
    written = onnx.load_from_string(Visit(parsed(CASES["a captured zero"])).written)
    assert [node.op_type for node in written.graph.node] == ["If"]


def test_equal_bodies_are_rewritten_once() -> None:
    visit = Visit(parsed(CASES["equal bodies"]))
    assert visit.equal == {"y/else_branch": "z/else_branch", "y/then_branch": "z/then_branch"}
    assert visit.operators()["y/then_branch"] == visit.operators()["z/then_branch"] == "Relu"


def test_new_names_are_those_of_no_other_body() -> None:
    graph = onnx.load_from_string(Visit(parsed(CASES["a folded constant"])).written).graph
    names = [tensor.name for place in places(graph) for tensor in place.graph.initializer]
    assert names == ["superopt/y/then_branch/weight_0", "superopt/y/else_branch/weight_0"]


def test_equal_large_constants_of_bodies_are_stored_once() -> None:
    text = CASES["a folded constant"].replace(constant(3), constant(400))
    graph = onnx.load_from_string(Visit(parsed(text)).written).graph
    assert [list(tensor.dims) for tensor in graph.initializer] == [[400, 3, 3]]
    assert not any(place.graph.initializer for place in places(graph))


def test_a_kept_node_keeps_its_bodies() -> None:
    model = parsed(CASES["a captured input"])
    model.graph.node[0].name = "choice"
    visit = Visit(model, keep=("choice",))
    assert visit.source is visit.given
    assert set(visit.refused.values()) == {"its node is kept on request"}


@pytest.mark.parametrize(("text", "why"), REFUSED.values(), ids=REFUSED.keys())
def test_a_body_that_cannot_be_a_model_is_refused_with_the_reason(text: str, why: str) -> None:
    opset = 8 if "Scan" in text else 17
    visit = Visit(parsed(text, opset))
    assert list(visit.refused.values()) == [why]


LOOP = """({count}, bool c, float[2,3] x) => (float[2,3] y) {{
    y = If (c) <then_branch = a () => (float[2,3] p) {{ {before} one = Constant<value = bool {{1}}>()
                    p = Loop ({limit}, one, x) <body = b (int64 i, bool on, float[2,3] v)
                        => (bool still, float[2,3] u) {{ still = Identity(on) u = Neg(v) }}> }},
                else_branch = d () => (float[2,3] r) {{ r = Neg(x) }}> }}"""


@pytest.mark.parametrize(
    ("limit", "before", "expected"),
    [
        ("n", "", False),
        ("k", "k = Constant<value = int64 {7}>()", False),
        ("k", "k = Constant<value = int64 {9223372036854775807}>()", True),
        ("", "", True),
    ],
)
def test_a_loop_without_a_limit_may_not_end(limit: str, before: str, expected: bool) -> None:  # noqa: FBT001
    text = LOOP.format(count="int64 n", limit=limit, before=before)
    bodies = Visit(parsed(text)).bodies
    assert may_not_end(bodies["y/then_branch"].source) is expected
    assert not may_not_end(bodies["y/then_branch/p/body"].source)
    assert may_not_end(load_model(parsed(text))) is expected

"""Reverse mode: gradients of graphs equal derivatives of their evaluation over dual numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from superopt.axioms import load_axioms
from superopt.domains import FloatDomain
from superopt.errors import UnsupportedError
from superopt.ir import ElementType, Graph, Input, TensorType
from superopt.ir.graph import GraphEditor, Value
from superopt.ir.types import UnknownType
from superopt.ops import OPERATORS, Opaque, Operator
from superopt.ops.elementwise.activation import Relu, Tanh
from superopt.ops.elementwise.arithmetic import Add, Multiply
from superopt.ops.elementwise.precision import Cast
from superopt.ops.elementwise.selection import Greater, Select
from superopt.ops.matrix import Matmul, Transpose
from superopt.ops.shape import Concat, Split
from superopt.optimizer.training.gradients.reverse import Gradients, differentiate
from superopt.rewriting.evaluation import evaluate_graph
from superopt.verifier.adjoints.coverage import missing_adjoints, why_no_adjoint
from superopt.verifier.adjoints.dual import Dual, DualDomain
from tests.ops.examples import Example, examples

FLOATS = FloatDomain(np.float64)
WITHOUT_STATEMENT = {(missing.operator, missing.input) for missing in missing_adjoints(load_axioms())}
DIFFERENTIABLE = sorted(
    name
    for name, operator in OPERATORS.items()
    if not why_no_adjoint(operator)
    and not any((name, slot) in WITHOUT_STATEMENT for slot in range(operator.inputs))
)
SAMPLES = 3


def float_input(editor: GraphEditor, name: str, *shape: int) -> Value:
    return editor.add(Input(name, TensorType(ElementType.FLOAT, shape))).value


def gradients_of(editor: GraphEditor, output: Value, wrt: list[Value]) -> tuple[Gradients, Value]:
    """The gradients, and the cotangent of the output, which is an input."""
    type_ = editor.type_of(output)
    cotangent = editor.add(Input("cotangent", type_)).value
    editor.set_outputs((output,))
    return differentiate(editor.build(), wrt, {output: cotangent}, load_axioms().adjoints), cotangent


def require_right(editor: GraphEditor, output: Value, wrt: list[Value], *, positive: bool = False) -> None:
    """<J v, g> = <v, gradient> at random points, along random directions, for each of ``wrt``."""
    found, cotangent = gradients_of(editor, output, wrt)
    random = np.random.default_rng(1)

    def drawn(value: Value) -> np.ndarray:
        shape = tuple(int(str(size)) for size in found.graph.type_of(value).shape)
        return random.normal(size=(SAMPLES, *shape))

    arrays = {node: drawn(Value(node)) for node in found.graph.inputs}
    if positive:
        arrays = {node: np.abs(array) + 0.3 for node, array in arrays.items()}
    arrays[cotangent.node] = drawn(cotangent)
    for value in wrt:
        direction = drawn(value)
        duals = {
            node: Dual(array, direction if node == value.node else None) for node, array in arrays.items()
        }
        domain = DualDomain(FLOATS)
        editor_graph = with_outputs(found.graph, output)
        (along,) = (domain.tangent(part) for part in evaluate_graph(editor_graph, domain, duals))
        (gradient,) = evaluate_graph(with_outputs(found.graph, found.of[value]), FLOATS, arrays)
        left = inner(np.broadcast_to(along, arrays[cotangent.node].shape), arrays[cotangent.node])
        right = inner(direction, np.broadcast_to(gradient, direction.shape))
        np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-9)


def inner(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return (left * right).reshape(SAMPLES, -1).sum(axis=1)


def with_outputs(graph: Graph, *outputs: Value) -> Graph:
    editor = graph.edit()
    editor.set_outputs(outputs)
    return editor.build()


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_every_operator_in_every_operand(name: str) -> None:
    for example in examples(name):
        if name == "conv" and getattr(example.operator, "activation", "none") != "none":
            continue  # only searches make them, after differentiation
        editor = Graph.empty().edit()
        operands = [float_input(editor, f"x{slot}", *shape) for slot, shape in enumerate(example.shapes)]
        made = editor.add(example.operator, operands)
        if len(made.types) == 1:
            slots = differentiable_slots(example)
            require_right(
                editor, made.value, [operands[slot] for slot in slots], positive=is_partial(example)
            )


def differentiable_slots(example: Example) -> list[int]:
    return [slot for slot in range(len(example.types)) if slot not in example.operator.conditions]


def is_partial(example: Example) -> bool:
    return not example.operator.is_total({}) or example.operator.name in ("power", "lrn")


def test_operators_without_gradient_are_known() -> None:
    assert {
        ("enlarge", 0),
        ("kernel_response", 0),
        ("kernel_response", 1),
        ("maxpool_gradient", 1),
    } == WITHOUT_STATEMENT


def shared(editor: GraphEditor) -> tuple[Value, list[Value]]:
    """A weight that is read twice, once through a transpose, and a square."""
    x, w = float_input(editor, "x", 3, 3), float_input(editor, "w", 3, 3)
    first = editor.add(Tanh(), (editor.add(Matmul(), (x, w)).value,)).value
    second = editor.add(Matmul(), (first, editor.add(Transpose(), (w,)).value)).value
    return editor.add(Multiply(), (second, second)).value, [x, w]


def joined_and_cut(editor: GraphEditor) -> tuple[Value, list[Value]]:
    """Three tensors joined, one of them twice; cut again, one piece unread."""
    x, y = float_input(editor, "x", 2, 2), float_input(editor, "y", 2, 3)
    whole = editor.add(Concat(1), (x, y, x)).value
    pieces = editor.add(Split(1, (3, 2, 2)), (editor.add(Tanh(), (whole,)).value,))
    return editor.add(Multiply(), (Value(pieces.id, 1), Value(pieces.id, 2))).value, [x, y]


def chosen(editor: GraphEditor) -> tuple[Value, list[Value]]:
    """A condition computed from a parameter, which has no gradient through it."""
    x, y = float_input(editor, "x", 4), float_input(editor, "y", 4)
    condition = editor.add(Greater(), (x, y)).value
    return editor.add(Select(), (condition, editor.add(Multiply(), (x, y)).value, y)).value, [x, y]


@pytest.mark.parametrize("build", [shared, joined_and_cut, chosen], ids=lambda build: build.__name__)
def test_graphs(build: Callable[[GraphEditor], tuple[Value, list[Value]]]) -> None:
    editor = Graph.empty().edit()
    output, wrt = build(editor)
    require_right(editor, output, wrt)


def test_gradients_of_casts_are_cast_back() -> None:
    editor = Graph.empty().edit()
    x = editor.add(Input("x", TensorType(ElementType.DOUBLE, (3,)))).value
    found, _ = gradients_of(editor, editor.add(Cast("f32"), (x,)).value, [x])
    assert found.graph.type_of(found.of[x]) == TensorType(ElementType.DOUBLE, (3,))


def test_equal_gradient_terms_are_one_node() -> None:
    editor = Graph.empty().edit()
    x, y = float_input(editor, "x", 3), float_input(editor, "y", 3)
    activated = editor.add(Relu(), (editor.add(Add(), (x, y)).value,)).value
    found, _ = gradients_of(editor, activated, [x, y])
    assert found.of[x] == found.of[y]
    assert found.used == {"adjoint-of-relu": 1, "adjoint-of-add-0": 1, "adjoint-of-add-1": 1}


def test_what_no_cotangent_reaches_has_no_gradient() -> None:
    editor = Graph.empty().edit()
    x, y = float_input(editor, "x", 3), float_input(editor, "y", 3)
    found, _ = gradients_of(editor, editor.add(Tanh(), (x,)).value, [x, y])
    assert set(found.of) == {x}


@pytest.mark.parametrize(
    ("operator", "types", "message"),
    [
        (Opaque("", "Det", 0, "no operator describes it"), True, "no operator describes it"),
        (OPERATORS["maxpool_gradient"]((2, 2)), False, "has no gradient with respect to operand 1"),
    ],
    ids=["opaque", "without a statement"],
)
def test_a_node_without_gradient_is_named(operator: Operator, types: bool, message: str) -> None:  # noqa: FBT001
    editor = Graph.empty().edit()
    x, y = float_input(editor, "x", 1, 1, 4, 4), float_input(editor, "y", 1, 1, 3, 3)
    declared = (TensorType(ElementType.FLOAT, (1, 1, 4, 4)),) if types else None
    made = editor.add(operator, (x, y), types=declared)
    with pytest.raises(UnsupportedError, match=message) as refused:
        gradients_of(editor, made.value, [y])
    assert str(refused.value).startswith("node 2")


def test_an_operand_of_unknown_rank_is_named() -> None:
    editor = Graph.empty().edit()
    x = float_input(editor, "x", 2)
    unknown = editor.add(
        Opaque("", "Loop", 0, ""), (x,), types=(UnknownType("tensor of unknown rank"),)
    ).value
    mixed = editor.add(Tanh(), (unknown,), types=(TensorType(ElementType.FLOAT, (2,)),)).value
    with pytest.raises(UnsupportedError, match=r"node 2 \(tanh\): expected a tensor of known rank"):
        gradients_of(editor, editor.add(Add(), (mixed, x)).value, [x])

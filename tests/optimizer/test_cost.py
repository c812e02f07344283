"""Kernels and their prices."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict

import numpy as np
import onnx
import pytest

from superopt.errors import InvalidOptionError
from superopt.ir import ElementType, Graph, Input, TensorType, Value, symbol
from superopt.ir.dimensions import floor_divide
from superopt.ir.types import UnknownType
from superopt.onnx_io import lift, load_model
from superopt.ops.base import Operator
from superopt.ops.elementwise.activation import Relu, Sigmoid, Softmax
from superopt.ops.elementwise.affine import BiasAdd
from superopt.ops.elementwise.arithmetic import Add, Multiply
from superopt.ops.elementwise.order import Absolute
from superopt.ops.images.convolution import Conv
from superopt.ops.matrix import Matmul, Transpose
from superopt.ops.opaque import Opaque
from superopt.ops.reduction import Log
from superopt.ops.shape import Broadcast, Reshape, Split
from superopt.optimizer.cost import (
    Flops,
    GraphCost,
    Kernel,
    Latency,
    Launches,
    Memory,
    MemoryCostStore,
    MemoryLimit,
    Origin,
    PeakMemory,
    Price,
    Sizes,
    Traffic,
    objective_of,
)
from superopt.optimizer.cost.kernels.spelling import respelled
from superopt.optimizer.cost.machine import Residence
from superopt.optimizer.cost.measuring.kernel_model import input_of, kernel_model
from superopt.optimizer.cost.measuring.measurer import LEAST_MICROSECONDS
from superopt.optimizer.cost.objective import Objective
from superopt.optimizer.cost.runtime.session import LoadedModel, profiled_model
from tests.optimizer.graphs import Builder, dense_blocks, f32
from tests.optimizer.models import lifted_text


def cost_of(graph: Graph, objective: Objective, **dims: int) -> GraphCost:
    return GraphCost.of(graph, objective, Sizes(graph, dims))


@pytest.fixture(scope="module")
def latency() -> Latency:
    return Latency(MemoryCostStore(), threads=1)


def test_a_larger_product_costs_more(latency: Latency) -> None:
    totals: list[float] = []
    for size in (32, 256):
        b = Builder()
        totals.append(
            cost_of(b.graph(b.add(Matmul(), b.input("x", size, size), b.weight(size, size))), latency).total
        )
    assert 0 < 5 * totals[0] < totals[1] < math.inf


def test_equal_blocks_are_measured_once() -> None:
    objective = Latency(MemoryCostStore(), threads=1)
    cost = cost_of(dense_blocks(6), objective)
    kernels = {priced.kernel for priced in cost.groups}
    assert objective.measured == len(kernels) < len(cost.groups)


def test_prices_are_remembered_in_the_store() -> None:
    store = MemoryCostStore()
    first = Latency(store, threads=1)
    total = cost_of(dense_blocks(2), first).total
    second = Latency(store, threads=1)
    assert cost_of(dense_blocks(2), second).total == total
    assert second.measured == 0
    other_threads = Latency(MemoryCostStore(), threads=2)
    assert other_threads.known(next(iter(cost_of(dense_blocks(2), first).groups)).kernel) is None


def test_images_stay_in_the_layout_of_the_runtime(latency: Latency) -> None:
    b = Builder()
    x = b.add(Conv(padding="same"), b.input("x", 1, 32, 28, 28), b.weight(32, 32, 3, 3))
    y = b.add(Conv(padding="same"), b.add(Relu(), x), b.weight(32, 32, 3, 3))
    cost = cost_of(b.graph(y), latency)
    first, second = cost.groups
    if not first.price.blocked:
        pytest.skip("the runtime keeps images as they are on this machine")
    assert [source.blocked for source in second.kernel.sources] == [True, False]


def test_what_cannot_be_measured_has_an_analytic_price(latency: Latency) -> None:
    b = Builder()
    x = b.input("x", 4, 8)
    opaque = b.editor.add(Opaque("", "Unknown", 0, "test"), (x,), types=(f32(4, 8),)).value
    huge = b.add(Relu(), b.input("y", 1 << 14, 1 << 14))
    cost = cost_of(b.graph(opaque, huge), latency)
    assert min(p.price.cost for p in cost.groups) > 0
    assert cost.total > (1 << 28) * 4 / latency.roofline.bytes


def test_an_opaque_node_is_measured_where_its_model_is_known() -> None:
    lifted = lifted_text(
        "(float[4,8] x) => (float[4,2] y) <int64[2] rows = {3, 1}> { y = Gather<axis = 1>(x, rows) }"
    )
    objective = Latency(MemoryCostStore(), threads=1)
    GraphCost.of(lifted.graph, objective, Sizes(lifted.graph, {}))
    assert objective.measured == 0
    cost = GraphCost.of(lifted.graph, objective, Sizes(lifted.graph, {}, Origin(lifted)))
    assert objective.measured == 1
    assert cost.groups[0].kernel.sources[1].content == np.array([3, 1], np.int64).tobytes()


def test_shapes_and_indices_that_are_computed_are_made_up_to_fit() -> None:
    lifted = lifted_text(
        "(float[2,6] x, int64[2] s, int64[3] i) => (float[3,4] y, float[3,6] z)"
        "{ y = Reshape(x, s) z = Gather(x, i) }"
    )
    objective = Latency(MemoryCostStore(), threads=1)
    GraphCost.of(lifted.graph, objective, Sizes(lifted.graph, {}, Origin(lifted)))
    assert objective.measured == 2


def test_what_nobody_infers_a_shape_of_is_measured_at_the_one_that_a_run_shows() -> None:
    lifted = lifted_text(
        f"(float[N,8] x) => (float[N,6] y) <float[8,6] w = {{{', '.join('1' * 48)}}}>"
        "{ a = com.microsoft.FusedMatMul(x, w) b = com.microsoft.FusedMatMul <alpha = 0.5> (x, w)"
        "  c = Add(a, b) y = Softsign(c) }"
    )
    assert any(isinstance(type_, UnknownType) for node in lifted.graph for type_ in node.types)
    objective = Latency(MemoryCostStore(), threads=1)
    cost = GraphCost.of(lifted.graph, objective, Sizes(lifted.graph, {"N": 5}, Origin(lifted)))
    assert objective.measured == len(cost.groups) == 4
    assert {kernel.output_types for kernel in objective.recorded} == {(f32(5, 6),)}


def test_a_tiny_kernel_costs_less_than_a_run(latency: Latency) -> None:
    b = Builder()
    (group,) = cost_of(b.graph(b.add(Softmax(), b.input("x", 4, 4))), latency).groups
    run = LoadedModel(kernel_model(group.kernel), 1).bind(
        {name: np.ones((4, 4), np.float32) for name in group.kernel.named_sources}
    )
    assert 0 < 2 * group.price.cost < min(run.microseconds() for _ in range(200))


@pytest.mark.parametrize(("operator", "signs"), [(Absolute(), {-1, 1}), (Sigmoid(), {1}), (Log(), {1})])
def test_kernels_that_compare_read_numbers_of_both_signs(operator: Operator, signs: set[int]) -> None:
    b = Builder()
    (group,) = cost_of(b.graph(b.add(operator, b.input("x", 4, 4))), Flops()).groups
    assert set(np.sign(input_of(group.kernel, 0)).flat) == signs


def test_a_conversion_that_two_kernels_need_is_counted_once() -> None:
    b = Builder()
    x = b.add(Conv(padding="same"), b.input("x", 1, 32, 28, 28), b.weight(32, 32, 3, 3))
    gate = b.add(Broadcast((1, 32, 28, 28)), b.input("gate", 28))
    cost = cost_of(b.graph(b.add(Multiply(), x, gate), b.add(Add(), x, gate)), Converting())
    assert [group.price.restoring for group in cost.groups] == [0.0, 4.0, 6.0]
    assert cost.total == sum(group.price.cost for group in cost.groups) - 4.0


class Converting:
    """Prices in which images leave the runtime's layout for every sum and product."""

    unit = "us"
    source = "analytic"

    def known(self, kernel: Kernel) -> Price:
        restoring = {"mul": 4.0, "add": 6.0}.get(kernel.steps[-1].operator.name, 0.0)
        return Price(1.0 + restoring, "conv" in kernel.operators, restoring)

    def bound(self, kernel: Kernel) -> float:
        return 0.0

    def price(self, kernel: Kernel) -> Price:
        return self.known(kernel)


def test_weights_lie_where_what_is_read_between_leaves_them() -> None:
    sides = {"float[8, 8]": Residence.CORE, "float[2000, 2000]": Residence.SHARED}
    for type_, expected in sides.items():
        assert residences(f"({type_} x, {type_} w) => ({type_} y) {{ y = MatMul(x, w) }}", "w") == [expected]
    three = "(float[2, 2000] x, {0} u, {0} v, {0} w) => (float[2, 2000] y)".replace(
        "{0}", "float[2000, 2000]"
    )
    steps = "{ a = MatMul(x, u) b = MatMul(a, u) c = MatMul(b, u) d = MatMul(c, v) y = MatMul(d, w) }"
    near, far = Residence.SHARED, Residence.MEMORY
    assert residences(f"{three} {steps}", "uvw") == [near, near, near, far, far]


def residences(text: str, weights: str) -> list[Residence]:
    """Where the weights of each kernel lie, in order; ``weights`` are inputs that get a content."""
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> g {text}')
    for value in [value for value in model.graph.input if value.name in weights]:
        shape = [dimension.dim_value for dimension in value.type.tensor_type.shape.dim]
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(shape, np.float32), value.name))
        model.graph.input.remove(value)
    lifted = lift(load_model(model))
    cost = GraphCost.of(lifted.graph, Flops(), Sizes(lifted.graph, {}, Origin(lifted)))
    kernels = [group.kernel for group in cost.groups]
    assert len({kernel.fingerprint for kernel in kernels}) == len({kernel.residence for kernel in kernels})
    return [kernel.residence for kernel in kernels]


def test_what_is_no_tensor_has_an_analytic_price(latency: Latency) -> None:
    lifted = lifted_text(
        "(float[4] x) => (float[8] y) { q = SequenceConstruct(x, x) y = ConcatFromSequence<axis = 0>(q) }"
    )
    cost = GraphCost.of(lifted.graph, latency, Sizes(lifted.graph, {}, Origin(lifted)))
    assert [0 < group.price.cost < math.inf for group in cost.groups] == [True, True]


def test_what_the_runtime_folds_costs_next_to_nothing(latency: Latency) -> None:
    lifted = lifted_text(
        "(float[1,1,2,2] x) => (float[1,1,2,2] y)"
        " <float[1,1,2,2] a = {1, 2, 3, 4}> { c = Round(a) y = Add(x, c) }"
    )
    cost = GraphCost.of(lifted.graph, latency, Sizes(lifted.graph, {}, Origin(lifted)))
    folded, added = (group.price.cost for group in cost.groups)
    assert LEAST_MICROSECONDS <= folded < added / 2


def test_equal_opaque_nodes_are_one_kernel() -> None:
    body = "{ a = CumSum(x, zero) b = CumSum(a, zero) c = CumSum <reverse = 1> (b, zero) }"
    lifted = lifted_text(f"(float[8,4] x) => (float[8,4] c) <int64 zero = {{0}}> {body}")
    objective = Latency(MemoryCostStore(), threads=1)
    GraphCost.of(lifted.graph, objective, Sizes(lifted.graph, {}, Origin(lifted)))
    assert objective.measured == 2


def test_numbers_that_decide_a_fusion_are_kept() -> None:
    gelu = "{ a = Div(x, root) b = Erf(a) c = Add(b, one) d = Mul(x, c) y = Mul(d, half) }"
    numbers = "<float root = {1.41421356237}, float one = {1}, float half = {0.5}>"
    lifted = lifted_text(f"(float[64,64] x) => (float[64,64] y) {numbers} {gelu}")
    (group,) = GraphCost.of(lifted.graph, Flops(), Sizes(lifted.graph, {}, Origin(lifted))).groups
    model = kernel_model(group.kernel)
    with profiled_model(model, threads=1) as loaded:
        loaded.run({next(iter(group.kernel.named_sources)): np.ones((64, 64), np.float32)})
        (run,) = loaded.end_profile()
    assert [kernel.operator for kernel in run] == ["Gelu"]


def test_the_bound_is_below_the_price(latency: Latency) -> None:
    cost = cost_of(dense_blocks(1, 32, 16), latency)
    for priced in cost.groups:
        assert latency.bound(priced.kernel) <= priced.price.cost


def test_after_the_deadline_nothing_is_measured() -> None:
    objective = Latency(MemoryCostStore(), threads=1)
    objective.deadline = 0.0
    assert cost_of(dense_blocks(1), objective).total > 0
    assert objective.measured == 0


def test_open_dimensions_are_priced_at_given_sizes() -> None:
    editor = Graph.empty().edit()
    n, s = symbol("n"), symbol("s")
    x = editor.add(Input("x", TensorType(ElementType.FLOAT, (n, s, 8)))).value
    y = editor.add(Relu(), (x,)).value
    y = editor.add(Reshape((n * s, 8)), (y,)).value
    first = editor.add(Split(0, (n, n * s - n)), (y,)).value
    editor.set_outputs((first,))
    graph = editor.build()
    assert cost_of(graph, Flops()).total == 64 * 8 + 64 * 8 + 64 * 8
    assert cost_of(graph, Flops(), n=2, s=10).total == 3 * 2 * 10 * 8
    assert cost_of(graph, Traffic(), n=2, s=10).total == 2 * 640 + (640 + 64)


def test_a_dimension_that_is_divided_by_0_at_the_assumed_sizes_is_an_unknown_one() -> None:
    """As in windows of an image whose size only the exported chain of divisions knows."""
    editor = Graph.empty().edit()
    n = symbol("n")
    x = editor.add(
        Input("x", TensorType(ElementType.FLOAT, (8, floor_divide(n, floor_divide(n, 100)))))
    ).value
    editor.set_outputs((editor.add(Relu(), (x,)).value,))
    graph = editor.build()
    assert cost_of(graph, Flops()).total == 8 * 64
    assert cost_of(graph, Flops(), n=500).total == 8 * 100


@pytest.mark.parametrize(
    ("objective", "expected"),
    [(Flops(), 2 * 3 * 8 * 5 + 3 * 5), (Traffic(), 4 * (3 * 8 + 8 * 5 + 5 + 3 * 5))],
    ids=["flops", "traffic"],
)
def test_analytic_objectives_price_the_fused_kernel(objective: Objective, expected: float) -> None:
    b = Builder()
    product = b.add(Matmul(), b.input("x", 3, 8), b.weight(8, 5))
    assert cost_of(b.graph(b.add(BiasAdd(-1), product, b.weight(5))), objective).total == expected


def two_branches(b: Builder) -> Value:
    """Of 100-byte tensors the input and two others at once: a sum overwrites an operand."""
    x = b.input("x", 25)
    left, right = b.add(Softmax(), x), b.add(Softmax(), x)
    return b.add(Add(), b.add(Softmax(), left), right)


def one_after_another(b: Builder) -> Value:
    return b.add(Relu(), b.add(Reshape((25,)), b.add(Softmax(), b.add(Softmax(), b.input("x", 5, 5)))))


def with_weights(b: Builder) -> Value:
    w = b.weight(5, 5)
    y = b.add(Matmul(), b.input("x", 5, 5), b.add(Multiply(), w, w))
    return b.add(Add(), y, b.add(Broadcast((5, 5)), b.weight()))


@pytest.mark.parametrize(
    ("make", "weights", "tensors", "launches"),
    [(two_branches, 0, 300, 4), (one_after_another, 0, 300, 3), (with_weights, 104, 200, 1)],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_memory_and_launches(
    make: Callable[[Builder], Value], weights: int, tensors: int, launches: int
) -> None:
    b = Builder()
    graph = b.graph(make(b))
    assert cost_of(graph, Launches()).total == launches
    cost = cost_of(graph, PeakMemory())
    assert cost.memory == Memory(weights, tensors)
    assert cost.memory.peak <= cost.total < cost.memory.peak + 1


def test_a_limit_of_memory_outweighs_every_cost() -> None:
    b = Builder()
    graph = b.graph(two_branches(b))
    totals = [
        GraphCost.of(graph, Flops(), Sizes(graph, {}), limit=MemoryLimit(size)).total
        for size in (300, 299, 200)
    ]
    assert totals[0] == cost_of(graph, Flops()).total
    assert 1e9 < totals[1] < totals[2]


def test_broadcasts_and_folded_nodes_cost_nothing() -> None:
    b = Builder()
    w = b.add(Multiply(), b.weight(8), b.weight(8))
    y = b.add(Add(), b.input("x", 3, 8), b.add(Broadcast((3, 8)), w))
    assert cost_of(b.graph(y), Traffic()).total == 4 * (3 * 8 + 8 + 3 * 8)


def test_an_unknown_objective_is_refused() -> None:
    with pytest.raises(InvalidOptionError, match="objective for a single device, got 'beauty'"):
        objective_of("beauty", MemoryCostStore(), 1)


def test_prices_are_exact_sums() -> None:
    cost = cost_of(dense_blocks(5), Latency(MemoryCostStore(), threads=1))
    assert cost.total == sum(priced.price.cost for priced in reversed(cost.groups))


def test_what_means_the_same_is_one_kernel() -> None:
    kernels: set[object] = set()
    for padding in ("same", "same_upper", "same_lower", (1, 1, 1, 1)):
        b = Builder()
        y = b.add(Conv(padding=padding), b.input("x", 1, 4, 6, 6), b.weight(4, 4, 3, 3))
        kernels.update(p.kernel for p in cost_of(b.graph(b.add(BiasAdd(1), y, b.weight(4))), Flops()).groups)
    assert len(kernels) == 1
    for axis, perm in ((-1, ()), (2, (0, 2, 1))):
        b = Builder()
        y = b.add(Transpose(perm), b.add(Softmax(axis), b.input("x", 2, 3, 4)))
        kernels.update(p.kernel for p in cost_of(b.graph(y), Flops()).groups)
    assert len(kernels) == 3


@pytest.mark.parametrize(
    ("shape", "perm", "spelled"),
    [
        ((1, 5), (), "reshape[shape=[5, 1]]"),
        ((2, 1, 5), (0, 2, 1), "reshape[shape=[2, 5, 1]]"),
        ((2, 5), (), "transpose[perm=[1, 0]]"),
    ],
)
def test_transposition_of_a_vector_is_priced_as_the_reshape_that_is_written(
    shape: tuple[int, ...], perm: tuple[int, ...], spelled: str
) -> None:
    operator = respelled(Transpose(perm), (f32(*shape),))
    shown = ", ".join(f"{name}={list(value)}" for name, value in asdict(operator).items())
    assert f"{operator.name}[{shown}]" == spelled

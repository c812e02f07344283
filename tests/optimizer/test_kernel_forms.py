"""Kernels that the runtime executes in the same form have one price."""

from __future__ import annotations

from superopt.ir import ElementType, Graph, Input, TensorType, Weight
from superopt.ir.dimensions import Dimension, symbol
from superopt.ops.bilinear.convolution import BilinearConv
from superopt.optimizer.cost import Flops, GraphCost, Kernel, Latency, MemoryCostStore, Origin, Sizes
from superopt.optimizer.cost.measuring.kernel_model import kernel_model
from tests.onnx_io.kit import operators
from tests.ops.algorithms import algorithm
from tests.optimizer.models import lifted_text


def normalised_sum(*, in_parts: bool) -> Kernel:
    """A sum of rows, normalised: by one operator, or by those that old exporters write."""
    parts = (
        "m = ReduceMean <axes = [-1]> (s) d = Sub(s, m) q = Pow(d, two) v = ReduceMean <axes = [-1]> (q)"
        " e = Add(v, small) r = Sqrt(e) n = Div(d, r) p = Mul(n, g) y = Add(p, b)"
    )
    whole = "y = LayerNormalization <axis = -1, epsilon = 0.00001> (s, g, b)"
    vectors = "float[4] g = {1, 2, 3, 4}, float[4] b = {4, 3, 2, 1}"
    numbers = f"float two = {{2}}, float small = {{0.00001}}, {vectors}"
    lifted = lifted_text(
        f"(float[1,32,4] x, float[1,32,4] z) => (float[1,32,4] y) <{numbers}>"
        f" {{ s = Add(x, z) {parts if in_parts else whole} }}"
    )
    sizes = Sizes(lifted.graph, {}, Origin(lifted))
    (group,) = GraphCost.of(lifted.graph, Flops(), sizes).groups
    return group.kernel


def test_kernels_that_the_runtime_executes_alike_have_one_price() -> None:
    store = MemoryCostStore()
    whole, parts = normalised_sum(in_parts=False), normalised_sum(in_parts=True)
    assert whole != parts
    first = Latency(store, threads=1)
    assert first.price(whole) == first.price(parts)
    first.measure_again()
    assert first.price(whole) == first.price(parts)
    other = MemoryCostStore()
    known = Latency(other, threads=1)
    price = known.price(whole)
    assert Latency(other, threads=1).price(parts) == price, "known by what was stored"


def convolution_in_tiles(height: Dimension) -> Kernel:
    """A convolution of an image of that height by a bilinear algorithm."""
    algorithms = algorithm(4, 3), algorithm(4, 3)
    editor = Graph.empty().edit()
    image = editor.add(Input("x", TensorType(ElementType.FLOAT, (1, 16, height, 40)))).value
    weight = editor.add(Weight("w", TensorType(ElementType.FLOAT, (16 * 36, 16, 1, 1)))).value
    editor.set_outputs([editor.add(BilinearConv(*algorithms, "same"), [image, weight]).value])
    graph = editor.build()
    (group,) = GraphCost.of(graph, Flops(), Sizes(graph, {"h": 40})).groups
    return group.kernel


def test_a_convolution_is_measured_as_it_is_written_where_the_size_of_the_image_is_open() -> None:
    known, open_ = convolution_in_tiles(40), convolution_in_tiles(symbol("h"))
    assert (known.open_axes, open_.open_axes) == ((), (2,))
    assert known != open_
    assert known.fingerprint != open_.fingerprint
    assert known.sources == open_.sources
    assert "Slice" not in operators(kernel_model(known)).split(), "all tiles are whole"
    assert "Slice" in operators(kernel_model(open_)).split()
    objective = Latency(MemoryCostStore(), threads=1)
    assert objective.price(known).cost > 0
    assert objective.price(open_).cost > 0
    assert objective.measured == 2

"""Which rules may be used at a model's operator set."""

from __future__ import annotations

import pytest

from superopt.equations import parse_equation
from superopt.generator.bilinear import filter_rules, filters, product_rules, products
from superopt.ir import Dimension, ElementType, Graph, Input, TensorType, Weight
from superopt.ir.dimensions import symbol
from superopt.ops.images.convolution import Conv
from superopt.ops.images.windows import Padding
from superopt.ops.matrix import Matmul
from superopt.optimizer.pipeline.selection import is_safe_with_infinities, usable_rules
from superopt.optimizer.search import RuleSet
from superopt.options import Options
from superopt.rewriting import apply_match, substitutions_of

COLUMNS = substitutions_of(next(filter_rules(filters(2, 3)[0])).equation, "F(2,3)")
BLOCKS = substitutions_of(next(product_rules(products((2, 2, 2), target=7, walks=1))).equation, "2x2x2")


@pytest.mark.parametrize(
    ("text", "oldest"),
    [
        ("mul(sigmoid(x), x) => silu(x)", 6),
        ("mul(x, hard_sigmoid[alpha=1/6](x)) => hard_swish(x)", 6),
        ("relu(relu(x)) => relu(x)", 6),
        ("sub(erf(x), erf(x)) => sub(erf(erf(x)), erf(erf(x)))", 9),
    ],
)
def test_operators_that_older_nodes_express_are_used_at_every_operator_set(text: str, oldest: int) -> None:
    """Swish came with operator set 24, HardSwish with 14; both are written as products before."""
    rules = substitutions_of(parse_equation(text), text)
    usable = [opset for opset in range(6, 26) if tuple(usable_rules(rules, Options(), opset))]
    assert usable == list(range(oldest, 26))


@pytest.mark.parametrize(
    ("options", "count"),
    [
        (Options(), 1),
        (Options(objective="throughput"), 1),
        (Options(objective="training"), 1),
        (Options(objective="flops"), 0),
        (Options(objective="launches"), 0),
        (Options(target="profile"), 0),
        (Options(exact_rounding=True), 0),
        (Options(fp16=True), 0),
        (Options(cluster="dgx-h100:4"), 0),
    ],
    ids=str,
)
def test_rules_that_round_more_are_used_where_time_is_measured(options: Options, count: int) -> None:
    assert len(tuple(usable_rules(COLUMNS, options, 17))) == count
    assert len(tuple(usable_rules(BLOCKS, options, 17))) == count


@pytest.mark.parametrize(
    ("element", "shape", "count"),
    [
        (ElementType.FLOAT, (1, 2, 5, 5), 1),
        (ElementType.DOUBLE, (1, 2, 5, 5), 1),
        (ElementType.FLOAT, (symbol("n"), 2, 5, 5), 1),
        (ElementType.FLOAT, (1, 2, symbol("h"), 5), 1),
        (ElementType.FLOAT, (symbol("n"), 2, symbol("h"), symbol("w")), 1),
        (ElementType.FLOAT16, (1, 2, 5, 5), 0),
        (ElementType.BFLOAT16, (1, 2, 5, 5), 0),
    ],
    ids=str,
)
def test_rules_that_round_more_need_sizes_and_single_precision(
    element: ElementType, shape: tuple[Dimension, ...], count: int
) -> None:
    editor = Graph.empty().edit()
    image = editor.add(Input("x", TensorType(element, shape))).value
    kernel = editor.add(Weight("w", TensorType(element, (3, 2, 3, 3)))).value
    editor.set_outputs([editor.add(Conv(), [image, kernel]).value])
    graph = editor.build()
    assert len(RuleSet(COLUMNS).matches(graph, graph.weight_only)) == count
    is_open = any(not isinstance(size, int) for size in shape[1:])
    written = RuleSet(COLUMNS, may_open_images=False).matches(graph, graph.weight_only)
    assert len(written) == (0 if is_open else count)


@pytest.mark.parametrize(
    ("shape", "kernel", "padding", "count"),
    [
        ((1, 2, 9, 9), (3, 3), "same", 1),
        ((symbol("n"), 2, 9, 9), (3, 3), "same", 1),
        ((1, 2, symbol("h"), 9), (3, 3), "same", 0),
        ((1, 2, symbol("h"), symbol("w")), (3, 3), "same", 0),
        ((1, 2, 1, symbol("w")), (1, 3), "same", 1),
        ((1, 2, 1, symbol("w")), (1, 3), (0, 4, 0, 0), 1),
        ((1, 2, symbol("h"), 1), (3, 1), "same", 1),
        ((1, 2, 1, symbol("w")), (3, 3), "same", 0),
        ((1, 2, 1, symbol("w")), (1, 3), (1, 0, 0, 0), 0),
    ],
    ids=str,
)
def test_with_a_dilation_only_the_length_of_a_sequence_may_be_open(
    shape: tuple[Dimension, ...], kernel: tuple[int, int], padding: Padding, count: int
) -> None:
    editor = Graph.empty().edit()
    image = editor.add(Input("x", TensorType(ElementType.FLOAT, shape))).value
    weight = editor.add(Weight("w", TensorType(ElementType.FLOAT, (3, 2, *kernel)))).value
    editor.set_outputs([editor.add(Conv(padding=padding, dilation=(2, 2)), [image, weight]).value])
    graph = editor.build()
    assert len(RuleSet(COLUMNS).matches(graph, graph.weight_only)) == count


@pytest.mark.parametrize(
    ("element", "shape", "count"),
    [
        (ElementType.FLOAT, (4, 6), 1),
        (ElementType.DOUBLE, (3, 4, 6), 1),
        (ElementType.FLOAT, (symbol("n"), 4, 6), 1),
        (ElementType.FLOAT, (symbol("n"), 6), 0),
        (ElementType.FLOAT, (1, symbol("s"), 6), 0),
        (ElementType.FLOAT, (3, 6), 0),
        (ElementType.FLOAT, (2, 3, 6), 0),
        (ElementType.FLOAT16, (4, 6), 0),
    ],
    ids=str,
)
def test_products_by_blocks_need_an_even_number_of_rows(
    element: ElementType, shape: tuple[Dimension, ...], count: int
) -> None:
    editor = Graph.empty().edit()
    data = editor.add(Input("x", TensorType(element, shape))).value
    matrix = editor.add(Weight("w", TensorType(element, (6, 10)))).value
    editor.set_outputs([editor.add(Matmul(), [data, matrix]).value])
    graph = editor.build()
    matches = RuleSet(BLOCKS).matches(graph, graph.weight_only)
    assert sum(apply_match(graph, match) is not None for match in matches) == count


@pytest.mark.parametrize(
    ("text", "is_safe"),
    [
        ("softplus(x) => add(relu(x), log(add(exp(scale(absolute(x), full[value=-1])), ones())))", True),
        ("elu(x) => add(relu(x), sub(exp(minimum(x, full[value=0])), ones()))", True),
        ("elu(x) => add(relu(x), sub(exp(minimum(x, full[value=1])), ones()))", False),
        ("softplus(x) => log(add(exp(x), ones()))", False),
        ("softplus(x) => log(add(exp(scale(absolute(x), full[value=2])), ones()))", False),
        ("exp(add(x, y)) => mul(exp(x), exp(y))", True),
        (
            (
                "softmax(x) => div(exp(sub(x, broadcast(reduce_max[axis=-1](x)))), "
                "broadcast(reduce_sum[axis=-1](exp(sub(x, broadcast(reduce_max[axis=-1](x)))))))"
            ),
            True,
        ),
        ("tanh(add(x, y)) => exp(sub(x, broadcast(reduce_max[axis=-1](y))))", False),
        ("tanh(x) => exp(sub(broadcast(reduce_max[axis=-1](x)), x))", False),
        ("softmax(x) => div(exp(x), broadcast(reduce_sum[axis=-1](exp(x))))", False),
    ],
)
def test_exponentials_of_what_may_be_positive_are_not_introduced(text: str, is_safe: bool) -> None:  # noqa: FBT001
    (rule,) = substitutions_of(parse_equation(text), text)
    assert is_safe_with_infinities(rule) is is_safe

"""What a model consists of is counted, and shown beside what the optimised one consists of."""

from __future__ import annotations

import io
from dataclasses import asdict

import numpy as np
import onnx
import pytest

from superopt.cli.output import Output
from superopt.cli.views.inventory import print_changes, print_one, print_table
from superopt.onnx_io import LoweredModel, lift, load_model
from superopt.optimizer.cost import Origin, Sizes
from superopt.optimizer.explanation.inventory_rows import uncounted_note
from superopt.optimizer.pipeline.reporting.inventory import Inventory, inventory_of
from tests.onnx_io.kit import graph, model, node, tensor, value, weight


def counted(proto: onnx.ModelProto, **sizes: int) -> Inventory:
    lifted = lift(load_model(proto.SerializeToString()))
    whole = LoweredModel.of_source(lifted.source, lifted.names)
    return inventory_of(whole, lifted.graph, Sizes(lifted.graph, sizes, Origin(lifted)))


def test_operators_arithmetic_parameters_and_memory_are_counted() -> None:
    proto = model(
        [
            node("MatMul", "x w", "p"),
            node("Relu", "p", "q"),
            node("Reshape", "q shape", "r"),
            node("Det", "r", "d"),
        ],
        [value("x", ["n", 8])],
        [value("d", ["n"])],
        [weight("w", 8, 16), tensor("shape", [-1, 4, 4], np.int64)],
    )
    found = counted(proto, n=3)
    assert found == Inventory(
        nodes=4,
        operators={"Det": 1, "MatMul": 1, "Relu": 1, "Reshape": 1},
        flops=2 * 3 * 8 * 16 + 3 * 16,
        uncounted=1,
        parameters=8 * 16,
        weight_bytes=4 * 8 * 16 + 8 * 3,
        activation_bytes=4 * 3 * (8 + 16 + 1),
        file_bytes=len(proto.SerializeToString()),
    )
    assert counted(proto, n=6).flops == 2 * found.flops
    assert uncounted_note(asdict(found)) == (
        "arithmetic without that of 1 of 4 nodes, which are in bodies or have no operator in the algebra"
    )


def test_nodes_and_weights_in_bodies_are_counted() -> None:
    branches = {
        f"{word}_branch": graph(
            [node("Constant", "", f"{word}k", value=weight("k", 5)), node("Neg", f"{word}k", word)],
            [],
            [value(word, [5])],
        )
        for word in ("then", "else")
    }
    nodes = [node("If", "c", "y", **branches), node("Gelu", "y", "z", domain="com.microsoft")]
    given = [value("c", [], onnx.TensorProto.BOOL)]
    found = counted(model(nodes, given, [value("z", [5])], domains={"com.microsoft": 1}))
    assert found.operators == {"Constant": 2, "If": 1, "Neg": 2, "com.microsoft.Gelu": 1}
    assert (found.nodes, found.uncounted, found.parameters, found.weight_bytes) == (6, 6, 10, 40)


BEFORE = Inventory(
    910, {"Conv": 3, "Mul": 900, "Relu": 7}, 5_670_000_000, 0, 8_000_000, 32_000_000, 64_000, 0
)
AFTER = Inventory(20, {"Add": 10, "Conv": 3, "Relu": 7}, 5_000_000_000, 2, 9, 36, 32_000, 7)
CHANGES = """
                           before       after    change
Add                             0          10       +10
Mul                           900           0      -900
nodes                         910          20   -97.8 %
arithmetic             5.67 GFLOP  5.00 GFLOP       n/a
parameters              8,000,000           9  -100.0 %
weights                   32.0 MB      36.0 B  -100.0 %
tensors alive at once     64.0 kB     32.0 kB   -50.0 %
file                          0 B      7.00 B       new
arithmetic without that of 2 of 20 nodes, which are in bodies or have no operator in the algebra
"""
TABLE = """
                           before       after    change
Add                             0          10       +10
Conv                            3           3
Mul                           900           0      -900
Relu                            7           7
nodes                         910          20   -97.8 %
arithmetic             5.67 GFLOP  5.00 GFLOP       n/a
parameters              8,000,000           9  -100.0 %
weights                   32.0 MB      36.0 B  -100.0 %
tensors alive at once     64.0 kB     32.0 kB   -50.0 %
file                          0 B      7.00 B       new
arithmetic without that of 2 of 20 nodes, which are in bodies or have no operator in the algebra
"""
ONE = """
nodes                          20
arithmetic             5.00 GFLOP
parameters                      9
weights                    36.0 B
tensors alive at once     32.0 kB
file                       7.00 B
arithmetic without that of 2 of 20 nodes, which are in bodies or have no operator in the algebra
"""
ONE_TABLE = f"\nONNX operator  nodes\nAdd               10\nConv               3\nRelu               7\n{ONE}"


@pytest.mark.parametrize(
    ("show", "returned", "text"),
    [
        (print_changes, "optimized", CHANGES),
        (print_table, "optimized", TABLE),
        (print_changes, "original", ONE),
        (print_table, "original", ONE_TABLE),
    ],
)
def test_models_are_shown_side_by_side(show: object, returned: str, text: str) -> None:
    report = {"inventory": {"before": asdict(BEFORE), "after": asdict(AFTER)}, "returned": returned}
    output = Output(as_json=False, file=io.StringIO())
    assert callable(show)
    show(report, output)
    assert output.file.getvalue() == text  # type: ignore[attr-defined]


def test_a_report_without_an_inventory_shows_none() -> None:
    output = Output(as_json=False, file=io.StringIO())
    print_changes({"inventory": None, "returned": "original"}, output)
    print_one(asdict(AFTER), Output(as_json=True, file=output.file))
    assert output.file.getvalue() == ""  # type: ignore[attr-defined]

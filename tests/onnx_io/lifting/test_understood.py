"""What is said of the lifters is what they do."""

from __future__ import annotations

import pytest

from superopt import zoo
from superopt.onnx_io import lift, load_model
from superopt.onnx_io.lifting.understood import opaque_nodes, size_nodes, understood_nodes
from superopt.ops import Opaque
from superopt.ops.base import Operator

UNDERSTOOD = {node.op_type: node for node in understood_nodes()}


def test_operators_and_reasons_are_those_of_the_lifter() -> None:
    """Attributes, helpers, enclosing variables and calls of the site all count."""
    gemm, pooled, less = UNDERSTOOD["Gemm"], UNDERSTOOD["ReduceMax"], UNDERSTOOD["LessOrEqual"]
    assert {"matmul", "transpose", "scale", "bias_add"} <= set(gemm.operators)
    assert pooled.operators == ("identity", "reduce_max", "reshape")
    assert pooled.reasons == ("the axes: computed at run time",)
    assert less.operators == ("broadcast", "greater", "logical_not")
    assert "output 1 is used" in UNDERSTOOD["MaxPool"].reasons
    assert "its margins follow from the size of its result" in UNDERSTOOD["ConvTranspose"].reasons
    assert {"conv_transpose", "conv_data_gradient"} <= set(UNDERSTOOD["ConvTranspose"].operators)
    assert (UNDERSTOOD["Gelu"].since, UNDERSTOOD["Gelu"].operators) == (20, ("gelu",))


def test_an_operator_is_understood_or_opaque() -> None:
    assert not UNDERSTOOD.keys() & set(opaque_nodes())
    assert {"LSTM", "TopK", "QLinearConv", "If"} <= set(opaque_nodes())
    assert {"Shape", "Range"} <= set(size_nodes())


@pytest.mark.parametrize("name", ["light-bert", "light-gpt2", "light-resnet18", "light-llama", "light-u-net"])
def test_networks_become_operators_that_are_listed(name: str) -> None:
    model = lift(load_model(zoo.build(name)))
    made = {
        (model.source.proto.graph.node[index].op_type, operator.name)
        for index, group in model.groups.items()
        for operator in (model.graph[node].operator for node in group.nodes)
        if isinstance(operator, Operator) and not isinstance(operator, Opaque)
    }
    assert len(made) > 5
    unlisted = {(op_type, name) for op_type, name in made if name not in UNDERSTOOD[op_type].operators}
    assert not unlisted

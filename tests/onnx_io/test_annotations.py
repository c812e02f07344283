"""Multi-device annotations: what is written is valid, and every broken one is found."""

from __future__ import annotations

from collections.abc import Callable

import onnx
import pytest
from onnx import TensorProto, helper

from superopt.errors import InvalidModelError
from superopt.ir.dimensions import symbol
from superopt.ir.types import ElementType, TensorType
from superopt.onnx_io.annotations import (
    NodeSharding,
    TensorSharding,
    annotated,
    annotation_problems,
    validate_annotations,
)
from superopt.onnx_io.sizes.inference import infer_types


def _chain() -> onnx.ModelProto:
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["y"], name="product"),
            helper.make_node("Relu", ["y"], ["z"], name="relu"),
        ],
        "chain",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 6]),
            helper.make_tensor_value_info("w", TensorProto.FLOAT, [6, 8]),
        ],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, ["n", 8])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


X = TensorType(ElementType.FLOAT, (symbol("n"), 6))
W = TensorType(ElementType.FLOAT, (6, 8))
Y = TensorType(ElementType.FLOAT, (symbol("n"), 8))
COLUMNS = NodeSharding(
    (
        TensorSharding("x", X, (1, 1), ((0, 1),)),
        TensorSharding("w", W, (1, 2), ((0,), (1,))),
        TensorSharding("y", Y, (1, 2), ((0,), (1,))),
    ),
    stage=0,
)


def _annotated() -> onnx.ModelProto:
    return annotated(_chain(), "two", ["cpu:0", "cpu:1"], {"y": COLUMNS, "z": NodeSharding((), stage=1)})


def test_what_is_written_is_valid_onnx_and_takes_nothing_away() -> None:
    model = _annotated()
    onnx.checker.check_model(model)
    assert model.ir_version == 11
    validate_annotations(model)
    x, w, _ = model.graph.node[0].device_configurations[0].sharding_spec
    assert (list(x.device), [list(entry.value) for entry in x.index_to_device_group_map]) == ([-1], [[0, 1]])
    assert list(x.sharded_dim) == []
    assert (list(w.device), w.sharded_dim[0].axis, w.sharded_dim[0].simple_sharding[0].num_shards) == (
        [0, 1],
        1,
        2,
    )
    for node in model.graph.node:
        node.ClearField("device_configurations")
    model.ClearField("configuration")
    model.ir_version = 8
    assert model == _chain()


def _spec(model: onnx.ModelProto, number: int = 1) -> onnx.ShardingSpecProto:
    return model.graph.node[0].device_configurations[0].sharding_spec[number]


def _set_shards(model: onnx.ModelProto, shards: int, size: int) -> None:
    simple = _spec(model).sharded_dim[0].simple_sharding[0]
    simple.num_shards, simple.dim_value = shards, size


BROKEN: tuple[tuple[str, Callable[[onnx.ModelProto], object], str], ...] = (
    ("old IR", lambda m: setattr(m, "ir_version", 10), "expected IR version 11 or higher, got 10"),
    ("nameless", lambda m: setattr(m.configuration[0], "name", ""), "a configuration has no name"),
    ("twice", lambda m: m.configuration.append(m.configuration[0]), "the name is given twice"),
    ("empty", lambda m: setattr(m.configuration[0], "num_devices", 0), "at least 1 device, got 0"),
    ("names", lambda m: m.configuration[0].device.append("c"), "expected 2 device names, got 3"),
    ("same", lambda m: m.configuration[0].device.__setitem__(1, "cpu:0"), "have the same name"),
    (
        "unknown configuration",
        lambda m: setattr(m.graph.node[0].device_configurations[0], "configuration_id", "three"),
        "configuration 'three' does not exist; there are: two",
    ),
    (
        "configuration twice",
        lambda m: m.graph.node[0].device_configurations.append(m.graph.node[0].device_configurations[0]),
        "configuration 'two' is given twice",
    ),
    (
        "negative stage",
        lambda m: setattr(m.graph.node[0].device_configurations[0], "pipeline_stage", -1),
        "expected a pipeline stage of at least 0, got -1",
    ),
    (
        "stage before",
        lambda m: setattr(m.graph.node[0].device_configurations[0], "pipeline_stage", 2),
        "is in stage 1 and reads 'y' of stage 2",
    ),
    ("foreign tensor", lambda m: setattr(_spec(m), "tensor_name", "z"), "neither reads nor produces it"),
    ("tensor twice", lambda m: setattr(_spec(m), "tensor_name", "x"), "is specified twice"),
    ("no device", lambda m: _spec(m, 0).ClearField("device"), "expected at least one device"),
    ("device beyond", lambda m: _spec(m).device.__setitem__(1, 2), "expected devices from 0 to 1, got 2"),
    ("device twice", lambda m: _spec(m).device.__setitem__(1, 0), "a device is listed twice"),
    (
        "group undefined",
        lambda m: _spec(m, 0).ClearField("index_to_device_group_map"),
        "group -1 is not defined",
    ),
    (
        "group twice",
        lambda m: _spec(m, 0).index_to_device_group_map.add(key=-1, value=[0]),
        "group -1 is defined twice",
    ),
    ("group unused", lambda m: _spec(m).index_to_device_group_map.add(key=-5, value=[0]), "is not used"),
    ("group empty", lambda m: _spec(m, 0).index_to_device_group_map[0].ClearField("value"), "has no device"),
    (
        "group named like a device",
        lambda m: _spec(m).index_to_device_group_map.add(key=1, value=[1]),
        "expected a negative number for a group, got 1",
    ),
    ("no axis", lambda m: _spec(m).sharded_dim[0].ClearField("axis"), "names no axis"),
    ("axis beyond", lambda m: setattr(_spec(m).sharded_dim[0], "axis", 2), "axis 2 of a tensor of rank 2"),
    (
        "axis twice",
        lambda m: _spec(m).sharded_dim.add(axis=-1).simple_sharding.add(num_shards=1),
        "axis 1 is sharded twice",
    ),
    ("no sharding", lambda m: _spec(m).sharded_dim[0].ClearField("simple_sharding"), "does not state how"),
    ("no shard", lambda m: _set_shards(m, 0, 8), "expected at least 1 shard, got 0"),
    ("odd size", lambda m: _set_shards(m, 3, 8), "8 is not a multiple of 3 shards"),
    ("other size", lambda m: _set_shards(m, 2, 6), "has size 8, and the sharding says 6"),
    (
        "symbol",
        lambda m: setattr(_spec(m).sharded_dim[0].simple_sharding[0], "dim_param", "n"),
        "has size 8, and the sharding says 'n'",
    ),
    ("parts", lambda m: _set_shards(m, 4, 8), "expected 4 devices or groups, one for each part, got 2"),
)


@pytest.mark.parametrize(("change", "message"), [b[1:] for b in BROKEN], ids=[b[0] for b in BROKEN])
def test_a_broken_annotation_is_named(change: Callable[[onnx.ModelProto], object], message: str) -> None:
    model = _annotated()
    change(model)
    problems = list(annotation_problems(model, infer_types(model).types))
    assert any(message in problem for problem in problems), problems
    with pytest.raises(InvalidModelError, match="multi-device annotations"):
        validate_annotations(model)


def test_a_sharding_of_a_node_that_is_not_there_is_refused() -> None:
    with pytest.raises(InvalidModelError, match="no node produces 'q'"):
        annotated(_chain(), "two", ["a", "b"], {"q": COLUMNS})

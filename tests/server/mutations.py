"""Mutations of real models, and models that are meant to do harm, as uploads."""

from __future__ import annotations

from onnx import AttributeProto, ModelProto, TensorProto, helper

from tests.server.conftest import WEIGHT, tiny_model
from tests.server.damage import Mutation, Random, Upload, model_upload, real_model


def _parsed(chance: Random) -> ModelProto:
    return ModelProto.FromString(real_model(chance))


def _confused(chance: Random) -> Upload:
    """An attribute whose type says something else than its value."""
    model = _parsed(chance)
    nodes = [node for node in model.graph.node if node.attribute] or list(model.graph.node)
    node = chance.choice(nodes)
    if not node.attribute:
        node.attribute.append(helper.make_attribute("axis", 0))
    attribute = chance.choice(node.attribute)
    attribute.type = chance.choice(range(15))
    if chance.random() < 0.5:
        attribute.ints.extend([2**62, -(2**62)])
    return model_upload("type confusion", model.SerializeToString())


def _swapped(chance: Random) -> Upload:
    model = _parsed(chance)
    for _ in range(chance.choice((1, 5))):
        one, other = chance.choice(model.graph.node), chance.choice(model.graph.node)
        name = chance.choice(("input", "output", "op_type", "attribute"))
        if name == "op_type":
            one.op_type, other.op_type = other.op_type, one.op_type
        else:
            first, second = list(getattr(one, name)), list(getattr(other, name))
            for node, values in ((one, second), (other, first)):
                node.ClearField(name)
                getattr(node, name).extend(values)
    return model_upload("fields swapped", model.SerializeToString())


_NAMES = (
    "\0",
    "a\0b",
    "../../etc/passwd",
    "/etc/passwd",
    "..",
    "\n",
    "x" * 1_000_000,
    "%s%n",
    "'; --",
    "\u202e",
)


def _named(chance: Random) -> Upload:
    model, name = _parsed(chance), chance.choice(_NAMES)
    node = chance.choice(model.graph.node)
    match chance.randrange(6):
        case 0:
            node.name = name
        case 1:
            node.op_type = name
        case 2:
            node.domain = name
        case 3:
            model.graph.name = model.producer_name = name
        case 4:
            model.metadata_props.add(key=name, value=name)
        case _:
            old = node.output[0]
            for other in model.graph.node:
                other.input[:] = [name if used == old else used for used in other.input]
            node.output[0] = name
    return model_upload("names", model.SerializeToString())


def _cyclic(chance: Random) -> Upload:
    model = _parsed(chance)
    first, last = model.graph.node[0], chance.choice(model.graph.node)
    first.input[0] = last.output[0]
    return model_upload("cyclic", model.SerializeToString())


def _doubled(chance: Random) -> Upload:
    model = _parsed(chance)
    chance.choice(
        (
            lambda: model.graph.node.append(model.graph.node[0]),
            lambda: model.graph.initializer.extend(list(model.graph.initializer)[:1] * 2),
            lambda: model.graph.input.append(model.graph.input[0]),
            lambda: model.graph.output.extend([model.graph.output[0]] * 3),
            lambda: model.opset_import.extend([model.opset_import[0]] * 2),
            lambda: model.graph.input.append(
                helper.make_tensor_value_info(model.graph.node[-1].output[0], TensorProto.FLOAT, [1])
            ),
        )
    )()
    return model_upload("said twice", model.SerializeToString())


def _missing(chance: Random) -> Upload:
    model = _parsed(chance)
    graph = model.graph
    chance.choice(
        (
            lambda: graph.ClearField("initializer"),
            lambda: graph.ClearField("input"),
            lambda: graph.ClearField("output"),
            lambda: graph.ClearField("node"),
            lambda: model.ClearField("opset_import"),
            lambda: model.ClearField("ir_version"),
            lambda: graph.node.pop(chance.randrange(len(graph.node))),
            lambda: chance.choice(graph.node).ClearField("op_type"),
            lambda: chance.choice(graph.node).ClearField("input"),
        )
    )()
    return model_upload("something missing", model.SerializeToString())


_VERSIONS = (0, -1, 1, 3, 6, 99, 2**31 - 1, 2**62)


def _versions(chance: Random) -> Upload:
    model = _parsed(chance)
    if chance.random() < 0.5:
        model.ir_version = chance.choice(_VERSIONS)
    else:
        model.opset_import[0].version = chance.choice(_VERSIONS)
    return model_upload("versions", model.SerializeToString())


_DIMENSIONS = ([2**62], [-1], [2**31, 2**31], [2**63 - 1, 2**63 - 1], [0], [1] * 100_000, [-(2**63)], [2**40])


def _dimensions(chance: Random) -> Upload:
    model, dimensions = ModelProto.FromString(tiny_model()), chance.choice(_DIMENSIONS)
    match chance.randrange(3):
        case 0:
            model.graph.initializer[0].dims[:] = dimensions
        case 1:
            model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", TensorProto.FLOAT, dimensions))
        case _:
            model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, dimensions))
    return model_upload("absurd shapes", model.SerializeToString())


def _tensors(chance: Random) -> Upload:
    model = ModelProto.FromString(tiny_model())
    tensor = model.graph.initializer[0]
    match chance.randrange(5):
        case 0:
            tensor.data_type = chance.choice((0, 8, 16, 17, 23, 99, -1))
        case 1:
            tensor.raw_data = chance.randbytes(chance.choice((0, 1, 15, 17, 100_000)))
        case 2:
            tensor.float_data.extend([float("nan"), float("inf")])
        case 3:
            tensor.segment.end = 2**60
        case _:
            sparse = model.graph.sparse_initializer.add()
            sparse.values.CopyFrom(helper.make_tensor("s", TensorProto.FLOAT, [1], [1.0]))
            sparse.indices.CopyFrom(helper.make_tensor("", TensorProto.INT64, [1], [2**60]))
            sparse.dims.append(2**61)
    return model_upload("tensors", model.SerializeToString())


def _explosive(chance: Random) -> Upload:
    """A valid model whose execution would ask for all memory there is, or for ever."""
    shape = helper.make_tensor("shape", TensorProto.INT64, [2], [2**20, chance.choice((2**10, 2**30))])
    nodes = [helper.make_node("ConstantOfShape", ["shape"], ["big"])]
    match chance.randrange(3):
        case 0:
            nodes.append(helper.make_node("ReduceSum", ["big"], ["y"], keepdims=0))
        case 1:
            nodes.append(helper.make_node("Identity", ["big"], ["y"]))
        case _:
            nodes += [
                helper.make_node("Transpose", ["big"], ["t"]),
                helper.make_node("MatMul", ["big", "t"], ["y"]),
            ]
    value = helper.make_tensor_value_info("y", TensorProto.FLOAT, None if len(nodes) == 2 else ["a", "b"])
    graph = helper.make_graph(nodes, "g", [], [value], [shape])
    made = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 17)])
    return model_upload("needs all memory", made.SerializeToString())


def _recursive(chance: Random) -> Upload:
    """A function that calls itself, or calls twice what calls twice, and so on."""
    depth = chance.choice((1, 2, 40))
    functions = [
        helper.make_function(
            "own",
            f"F{level}",
            ["a"],
            ["b"],
            [
                helper.make_node(f"F{(level + 1) % depth}", ["a"], ["m"], domain="own"),
                helper.make_node(f"F{(level + 1) % depth}", ["m"], ["b"], domain="own"),
            ],
            [helper.make_opsetid("own", 1)],
        )
        for level in range(depth)
    ]
    if chance.random() < 0.5:
        functions[-1].node[0].CopyFrom(helper.make_node("Identity", ["a"], ["m"]))
        functions[-1].node[1].CopyFrom(helper.make_node("Identity", ["m"], ["b"]))
        functions[-1].opset_import.append(helper.make_opsetid("", 17))
    graph = helper.make_graph(
        [helper.make_node("F0", ["x"], ["y"], domain="own")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    made = helper.make_model(graph, functions=functions, ir_version=10, opset_imports=opsets)
    return model_upload("functions", made.SerializeToString())


def _attributes(chance: Random) -> Upload:
    """A convolution with attributes that make no sense."""
    name, value = chance.choice(
        (
            ("strides", [0, 0]),
            ("strides", [2**62, 2**62]),
            ("pads", [2**40] * 4),
            ("pads", [-(2**40)] * 4),
            ("dilations", [2**62, 1]),
            ("group", 0),
            ("group", -1),
            ("group", 2**62),
            ("kernel_shape", [2**62] * 2),
            ("kernel_shape", []),
            ("auto_pad", b"\xff\xfe"),
            ("nonsense", 1.0),
        )
    )
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    attribute = helper.make_attribute(name, value) if value != [] else AttributeProto(name=name, type=7)
    node.attribute.append(attribute)
    weight = helper.make_tensor("w", TensorProto.FLOAT, [2, 2, 3, 3], [1.0] * 36)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [weight],
    )
    made = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 17)])
    return model_upload("attributes", made.SerializeToString())


LOCATIONS = (
    "../w.bin",
    "/etc/passwd",
    "a/../../w.bin",
    "",
    "\0",
    "w.bin\0.txt",
    "w",
    "C:\\w.bin",
    ".",
    "~/w",
)
_ENTRIES = (
    ("offset", "-1"),
    ("offset", "x"),
    ("length", str(2**62)),
    ("length", "-16"),
    ("offset", "9" * 5000),
)


def _external(chance: Random) -> Upload:
    model = ModelProto.FromString(tiny_model("w.bin"))
    entries = model.graph.initializer[0].external_data
    if chance.random() < 0.6:
        entries[0].value = chance.choice(LOCATIONS)
    else:
        key, value = chance.choice(_ENTRIES)
        entries.add(key=key, value=value)
    sent = chance.choice((WEIGHT, b"", WEIGHT[:8], b"x" * 1000))
    return model_upload("external data", model.SerializeToString(), ("w.bin", sent))


OF_MODELS: tuple[Mutation, ...] = (
    _confused,
    _swapped,
    _named,
    _cyclic,
    _doubled,
    _missing,
    _versions,
    _dimensions,
    _tensors,
    _explosive,
    _recursive,
    _attributes,
    _external,
)

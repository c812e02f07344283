"""Every network of the zoo is valid ONNX, of its paper's size, depends on its input, and can be repeated."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from numpy.typing import NDArray

from superopt import zoo
from superopt.errors import InvalidOptionError
from superopt.zoo import weights
from superopt.zoo.networks.language import llama

BATCHED = tuple(name for name in zoo.names() if name not in zoo.light_networks())
# Hundreds of megabytes of weights add seconds and nothing else: only the small networks are run here.
RUN = (
    "squeezenet", "nasrnn", "densenet121", "mobilenet-v3", "candle-uno", "lstm-lm",
    "lstm-lm-operator", "repvgg", "edsr", "vdcnn", "yolov3-tiny",
    "resnet18", "mlp-mnist", "light-mlp", "light-resnet18", "light-resnet101",
    "light-vgg16", "light-u-net", "light-ncf", "light-bert", "light-gpt2", "light-transformer", "light-llama",
    "light-lstm-lm",
)  # fmt: skip
LARGE_LIGHT = ("light-alexnet", "light-vgg19", "light-zfnet512")
SMALL_LIGHT = tuple(name for name in zoo.light_networks() if name not in LARGE_LIGHT)

SHAPES_AT_RUN_TIME = ("bert-large",)
"""ONNX's own inference does not follow these: reshapes by Shape, Gather, Unsqueeze and Concat."""

OPERATORS = {
    "squeezenet": {"Conv": 26, "Relu": 26, "Concat": 8, "MaxPool": 3, "GlobalAveragePool": 1, "Flatten": 1},
    "resnet50": {
        "Conv": 53,
        "BatchNormalization": 53,
        "Relu": 49,
        "Add": 16,
        "MaxPool": 1,
        "GlobalAveragePool": 1,
        "Flatten": 1,
        "Gemm": 1,
    },
    "nasrnn": {"MatMul": 80, "Add": 55, "Sigmoid": 25, "Tanh": 40, "Mul": 20, "Relu": 10},
    "inception-v3": {"Conv": 94, "BatchNormalization": 94, "AveragePool": 9, "MaxPool": 4, "Gemm": 1},
    "vgg19": {"Conv": 16, "Relu": 18, "MaxPool": 5, "Gemm": 3, "Dropout": 2, "Sub": 1, "Div": 1},
    "densenet121": {"Conv": 120, "BatchNormalization": 121, "Concat": 58, "AveragePool": 3, "Gemm": 1},
    "mobilenet-v3": {"Conv": 62, "BatchNormalization": 46, "Clip": 29, "Gemm": 2, "Dropout": 1},
    "bert-large": {"MatMul": 24 * 8, "Softmax": 24, "Erf": 24, "Sqrt": 49, "Shape": 24 * 8, "Gemm": 1},
    "gpt2": {"Gemm": 12 * 4, "MatMul": 12 * 2 + 1, "Tanh": 12, "Where": 12, "Split": 12, "Sqrt": 25},
    "vit-base": {"Conv": 1, "MatMul": 12 * 6, "LayerNormalization": 25, "Erf": 12, "Gemm": 1},
    "mlp": {"MatMul": 16, "Add": 16, "Relu": 15},
    "nasnet-a": {"Softmax": 0, "Concat": 18 + 4 + 4, "MaxPool": 4 * 2, "Gemm": 1, "BatchNormalization": 0},
    "dlrm": {"Gather": 8, "ReduceSum": 8, "Concat": 1, "Gemm": 7, "Relu": 6, "Sigmoid": 1},
    "xdl": {"Gather": 4, "ReduceSum": 4, "Concat": 1, "MatMul": 3, "Relu": 2, "Sigmoid": 1},
    "candle-uno": {"MatMul": 5 * 3 + 4, "Relu": 5 * 3 + 3, "Concat": 1},
    "lstm-lm": {"MatMul": 35 * 2 * 8 + 1, "Sigmoid": 35 * 2 * 3, "Tanh": 35 * 2 * 2},
    "lstm-lm-operator": {"LSTM": 2, "MatMul": 1},
    "nmt": {"Gemm": 20 * 4 * 2, "Split": 20 * 4, "Softmax": 20, "Tanh": 20 * 9},
    "repvgg": {"Conv": 22 * 2, "BatchNormalization": 22 * 2 + 17, "Relu": 22, "Gemm": 1},
    "resnet18": {"Conv": 20, "BatchNormalization": 20, "Relu": 17, "Add": 8, "MaxPool": 1, "Gemm": 1},
    "resnet101": {"Conv": 104, "BatchNormalization": 104, "Relu": 100, "Add": 33, "MaxPool": 1, "Gemm": 1},
    "vgg16": {"Conv": 13, "Relu": 15, "MaxPool": 5, "Gemm": 3, "Dropout": 2, "Sub": 0},
    "mlp-mnist": {"MatMul": 3, "Add": 3, "Relu": 2},
    "transformer": {
        "MatMul": 18 * 6 + 12 * 2 + 1,
        "Softmax": 18,
        "LayerNormalization": 30,
        "Relu": 12,
        "Gather": 2,
    },
    "ncf": {"Gather": 4, "Mul": 1, "Concat": 2, "MatMul": 4, "Relu": 3, "Sigmoid": 1},
    "u-net": {"Conv": 19, "Relu": 18, "MaxPool": 4, "ConvTranspose": 4, "Concat": 4},
    "edsr": {"Conv": 1 + 2 * 16 + 3, "Relu": 16, "Add": 17, "DepthToSpace": 1},
    "vdcnn": {"Gather": 1, "Conv": 29, "BatchNormalization": 28, "MaxPool": 3, "TopK": 1, "Gemm": 3},
    "yolov3-tiny": {"Conv": 13, "BatchNormalization": 11, "LeakyRelu": 11, "MaxPool": 6, "Resize": 1},
    "llama-3x256": {"MatMul": 3 * 9 + 1, "Softmax": 3, "Sqrt": 7, "Cos": 0, "Gather": 1, "Expand": 6},
    "llama-block": {"MatMul": 7 + 2 + 1, "Softmax": 1, "Sqrt": 2, "Cos": 1, "Sin": 1, "Expand": 2},
}
"""How often each operator occurs; those that are not named may occur as well."""


def random_feeds(model: onnx.ModelProto, seed: int) -> dict[str, NDArray[np.generic]]:
    """Normal numbers for float inputs; zeros and ones for integer inputs, which every vocabulary has."""
    random = np.random.default_rng(seed)
    initialised = {tensor.name for tensor in model.graph.initializer}
    feeds: dict[str, NDArray[np.generic]] = {}
    for value in model.graph.input:
        shape = [dimension.dim_value for dimension in value.type.tensor_type.shape.dim]
        if value.name in initialised:
            continue
        if value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
            feeds[value.name] = random.standard_normal(shape, dtype=np.float32)
        else:
            feeds[value.name] = random.integers(0, 2, shape)
    return feeds


def assert_alive(model: onnx.ModelProto, serialized: bytes) -> None:
    """Outputs have their declared shapes, are finite and of order one, and differ for different inputs."""
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(serialized, options, providers=["CPUExecutionProvider"])
    runs = [session.run(None, random_feeds(model, seed)) for seed in range(3)]
    for value, *outputs in zip(model.graph.output, *runs, strict=True):
        assert outputs[0].shape == declared_shape(value)
        stacked = np.stack(outputs).astype(np.float64)
        size = np.sqrt((stacked**2).mean())
        assert 1e-4 < size < 100
        assert stacked.std(axis=0).mean() > 3e-3 * size


def declared_shape(value: onnx.ValueInfoProto) -> tuple[int, ...]:
    return tuple(dimension.dim_value for dimension in value.type.tensor_type.shape.dim)


def with_weights_as_inputs(blueprint: zoo.Blueprint) -> onnx.ModelProto:
    """The skeleton in a form that the checker accepts: what has no content comes from outside."""
    model = onnx.ModelProto()
    model.CopyFrom(blueprint.skeleton)
    kept = [tensor for tensor in model.graph.initializer if tensor.name not in blueprint.draws]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    for name, draw in blueprint.draws.items():
        model.graph.input.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, draw.shape))
    return model


def operators(model: onnx.ModelProto) -> Counter[str]:
    return Counter(node.op_type for node in model.graph.node)


@pytest.mark.parametrize("name", BATCHED)
def test_a_network_is_valid_and_has_the_parameters_of_its_paper(name: str) -> None:
    blueprint = zoo.blueprint(name, batch=3)
    assert blueprint.parameters == pytest.approx(zoo.describe(name).parameters, rel=0.01)
    model = with_weights_as_inputs(blueprint)
    onnx.checker.check_model(model, full_check=True)
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    del bare.graph.output[:]
    bare.graph.output.extend(onnx.helper.make_empty_tensor_value_info(out.name) for out in model.graph.output)
    inferred = onnx.shape_inference.infer_shapes(bare, strict_mode=True, data_prop=True)
    for declared, found in zip(model.graph.output, inferred.graph.output, strict=True):
        assert name in SHAPES_AT_RUN_TIME or declared_shape(found) == declared_shape(declared)
        assert declared_shape(declared)[0] == 3


@pytest.mark.parametrize("name", RUN)
def test_a_network_runs(name: str) -> None:
    model = zoo.build(name, batch=2)
    assert_alive(model, model.SerializeToString())


@pytest.mark.parametrize("name", SMALL_LIGHT)
def test_a_light_network_runs_with_drawn_weights(name: str) -> None:
    model = zoo.build(name)
    serialized = model.SerializeToString()
    onnx.checker.check_model(serialized)
    assert "ConstantOfShape" not in operators(model)
    assert_alive(model, serialized)


@pytest.mark.parametrize("name", ["squeezenet", "nasrnn", "light-shufflenet"])
def test_the_same_seed_gives_the_same_bytes_and_another_seed_other_ones(name: str) -> None:
    def digest(seed: int) -> bytes:
        return hashlib.sha256(zoo.build(name, seed=seed).SerializeToString(deterministic=True)).digest()

    assert digest(0) == digest(0)
    assert digest(0) != digest(1)


@pytest.mark.parametrize("name", OPERATORS)
def test_a_network_has_the_operators_of_its_paper(name: str) -> None:
    counted = operators(zoo.blueprint(name).skeleton)
    assert {operator: counted[operator] for operator in OPERATORS[name]} == OPERATORS[name]


PUBLISHED = {
    "resnet18": 11_689_512,
    "resnet101": 44_549_160,
    "vgg16": 138_357_544,
    "ncf": 31_832_577,
    "edsr": 1_369_859,
    "yolov3-tiny": 8_852_366,
    "light-bert": 4_385_920,
    "llama-16x2048": 1_235_814_400,
    "llama-28x3072": 3_212_749_824,
    "llama-32x4096": 8_030_261_248,
    "llama-80x8192": 70_553_706_496,
}
"""As torchvision, code of the authors and of MLPerf, and the weights of BERT-Tiny, LLaMA 3.1 and 3.2 have."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_network_has_exactly_the_published_parameters(name: str) -> None:
    assert zoo.blueprint(name).parameters == zoo.describe(name).parameters == PUBLISHED[name]


@pytest.mark.parametrize(("name", "millions"), [("u-net", 31.0), ("transformer", 65.0)])
def test_a_network_has_about_as_many_parameters_as_its_paper_says(name: str, millions: float) -> None:
    assert zoo.blueprint(name).parameters / 1e6 == pytest.approx(millions, rel=0.04)


@pytest.mark.parametrize("name", [name for name in BATCHED if name.startswith("light-")])
def test_a_light_network_keeps_the_operators_of_the_large_one(name: str) -> None:
    large = {"light-bert": "bert-base", "light-llama": "llama-2x256", "light-mlp": "mlp-mnist"}.get(
        name, name.removeprefix("light-")
    )
    light = operators(zoo.blueprint(name).skeleton)
    assert set(light) == set(operators(zoo.blueprint(large).skeleton))
    assert zoo.blueprint(name).parameters < 5e6


@pytest.mark.parametrize("name", ["light-llama", "light-transformer", "light-gpt2"])
def test_a_decoder_does_not_look_ahead(name: str) -> None:
    model = zoo.build(name, batch=2)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = random_feeds(model, 0)
    changed = {key: array.copy() for key, array in feeds.items()}
    changed[session.get_inputs()[-1].name][:, 9] += 1
    (before,), (after,) = session.run(None, feeds), session.run(None, changed)
    np.testing.assert_array_equal(before[:, :9], after[:, :9])
    assert (np.abs(before - after)[:, 9:].max(axis=(0, 2)) > 1e-4).all()


def test_rotation_by_tables_is_rotation_by_positions() -> None:
    """The one block that computes its angles and the decoders, which store them, turn alike."""
    sizes = llama.sizes_of_width(2048)
    decoder = zoo.blueprint("llama-1x2048").skeleton
    stored = {
        node.output[0]: onnx.numpy_helper.to_array(node.attribute[0].t)
        for node in decoder.graph.node
        if node.op_type == "Constant"
    }
    block = zoo.blueprint("llama-block").skeleton
    extractor = onnx.utils.Extractor(onnx.shape_inference.infer_shapes(block))
    rotation = extractor.extract_model(["position_ids"], ["rotary.cos.heads", "rotary.sin.heads"])
    session = ort.InferenceSession(rotation.SerializeToString(), providers=["CPUExecutionProvider"])
    computed = session.run(None, {"position_ids": np.arange(sizes.sequence)[None]})
    for name, expected in zip(("rotary.cos", "rotary.sin"), computed, strict=True):
        np.testing.assert_allclose(stored[name], expected, atol=1e-5)


def test_resnext_differs_from_resnet_in_groups_alone() -> None:
    resnet, resnext = zoo.blueprint("resnet50").skeleton, zoo.blueprint("resnext50").skeleton
    assert operators(resnet) == operators(resnext)
    groups = Counter(
        attribute.i
        for node in resnext.graph.node
        for attribute in node.attribute
        if attribute.name == "group"
    )
    assert groups == {1: 37, 32: 16}


def test_steps_of_nasrnn_share_their_weights() -> None:
    model = zoo.build("nasrnn", batch=3)
    assert {tensor.name for tensor in model.graph.initializer} == {f"{m}{i}" for m in "WU" for i in range(8)}
    assert [value.name for value in model.graph.input] == ["x0", "x1", "x2", "x3", "x4", "h0"]


@pytest.mark.parametrize(
    "draw",
    [
        weights.normal((5_000_000,), 2.0),
        weights.uniform((5, 1_000_000), -1, 3),
        weights.rectified((300, 4, 5_000), (1, 2)),
    ],
    ids=["normal", "uniform", "centred rows"],
)
def test_weights_in_pieces_are_the_same_weights(draw: weights.Draw) -> None:
    pieces = list(weights.Stream(1).pieces(draw))
    assert max(len(piece) for piece in pieces) < draw.size
    np.testing.assert_array_equal(np.concatenate(pieces).reshape(draw.shape), weights.Stream(1).array(draw))


@pytest.mark.parametrize(("shape", "axes"), [((8, 16, 3, 3), (1, 2, 3)), ((144, 8), (0,))])
def test_weights_behind_a_relu_sum_to_zero(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    array = weights.Stream(0).array(weights.rectified(shape, axes))
    np.testing.assert_allclose(array.sum(axes), 0, atol=1e-4)
    assert array.var() == pytest.approx(1 / (144 * (0.5 - 0.5 / np.pi)), rel=0.1)


@pytest.mark.parametrize("name", ["squeezenet", "lstm-lm-operator"])
def test_a_saved_network_is_the_one_that_is_built(name: str, tmp_path: Path) -> None:
    written = zoo.save(name, tmp_path / "a.onnx", batch=2, seed=5)
    content = (tmp_path / "a.onnx").read_bytes()
    assert written == len(content)
    assert content == zoo.build(name, batch=2, seed=5).SerializeToString()


def test_large_weights_go_beside_the_model(tmp_path: Path) -> None:
    blueprint = zoo.blueprint("squeezenet")
    written = blueprint.save(tmp_path / "a.onnx", 0, inline_limit=0)
    assert written == sum(path.stat().st_size for path in tmp_path.iterdir())
    model, data = sorted(tmp_path.iterdir(), key=lambda path: path.stat().st_size)
    assert (model.name, data.suffix) == ("a.onnx", ".data")
    onnx.checker.check_model(str(model), full_check=True)
    inside, outside = zoo.build("squeezenet"), onnx.load(model)
    for one, other in zip(inside.graph.initializer, outside.graph.initializer, strict=True):
        assert (one.name, one.raw_data) == (other.name, other.raw_data)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    blueprint.save(tmp_path / "a.onnx", 0, inline_limit=0)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_hollow_network_has_all_shapes_and_takes_no_space(tmp_path: Path) -> None:
    """4.3 GB of weights, only their sizes."""
    blueprint = zoo.blueprint("mlp", batch=2)
    blueprint.save_hollow(tmp_path / "a.onnx")
    assert sum(path.stat().st_blocks for path in tmp_path.iterdir()) * 512 < 10**6
    onnx.checker.check_model(str(tmp_path / "a.onnx"))
    hollow = onnx.load(tmp_path / "a.onnx", load_external_data=False).graph
    assert hollow.node == blueprint.skeleton.graph.node
    for one, other in zip(hollow.initializer, blueprint.skeleton.graph.initializer, strict=True):
        assert (one.name, one.dims) == (other.name, other.dims)


def test_every_name_is_described() -> None:
    assert len(set(zoo.names())) == 52
    for name in zoo.names():
        description = zoo.describe(name)
        assert description.name == name
        assert description.summary
        assert len(description.summary) <= 52
        assert description.batch == (1 if name in zoo.light_networks() else None)


@pytest.mark.parametrize(
    ("name", "batch", "seed", "message"),
    [
        (
            "resnet",
            1,
            0,
            r"unknown network 'resnet'; the zoo has squeezenet, .*light-zfnet512, and llama-LxW",
        ),
        ("llama-2x100", 1, 0, "LLaMA: expected a width that is a multiple of 64, got 100"),
        ("llama-0x64", 1, 0, "unknown network 'llama-0x64'"),
        ("llama-2000x64", 1, 0, "unknown network 'llama-2000x64'"),
        ("resnet50", 0, 0, r"resnet50: expected a batch of at least 1, got 0"),
        ("resnet50", 1, -1, r"resnet50: expected a seed of at least 0, got -1"),
        ("mlp", 1, 0, r"mlp has 4.3 GB of weights, and one ONNX message holds 2 GB: save it to a path"),
        ("light-resnet50", 2, 0, r"light-resnet50: its file fixes the batch at 1, got batch 2"),
    ],
)
def test_what_cannot_be_built_is_named(name: str, batch: int, seed: int, message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        zoo.build(name, batch=batch, seed=seed)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("bert-base", (2, 512, 768)),
        ("gpt2", (2, 512, 50257)),
        ("llama-block", (2, 512, 2048)),
        ("llama-1x64", (2, 512, 128_256)),
    ],
)
def test_the_number_of_tokens_can_be_chosen(name: str, shape: tuple[int, ...]) -> None:
    graph = zoo.blueprint(name, batch=2, sequence=512).model(0).graph
    assert tuple(one.dim_value for one in graph.output[0].type.tensor_type.shape.dim) == shape
    assert {one.type.tensor_type.shape.dim[1].dim_value for one in graph.input} == {512}


@pytest.mark.parametrize(
    ("name", "sequence", "message"),
    [
        ("bert-base", 513, "bert-base: expected at most 512 tokens, got 513"),
        ("gpt2", 1025, "gpt2: expected at most 1,024 tokens, got 1,025"),
        ("llama-block", 0, "llama-block: expected a sequence of at least 1 token, got 0"),
        ("resnet50", 64, "resnet50: its number of tokens cannot be chosen, got 64"),
        ("light-resnet50", 64, "light-resnet50: its number of tokens cannot be chosen, got 64"),
    ],
)
def test_a_number_of_tokens_that_does_not_fit_is_said(name: str, sequence: int, message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        zoo.build(name, sequence=sequence)


def test_describing_an_unknown_network_names_the_known_ones() -> None:
    with pytest.raises(InvalidOptionError, match="squeezenet"):
        zoo.describe("lenet")

"""Every network of the zoo is valid ONNX, runs, depends on its input, and is the same for the same seed."""

from __future__ import annotations

import hashlib
from collections import Counter

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from numpy.typing import NDArray

from superopt import zoo
from superopt.errors import InvalidOptionError

BATCHED = tuple(name for name in zoo.names() if name not in zoo.light_networks())
# Hundreds of megabytes of weights add seconds and nothing else: of the light networks the small ones are run.
LARGE_LIGHT = ("light-alexnet", "light-vgg19", "light-zfnet512")
SMALL_LIGHT = tuple(name for name in zoo.light_networks() if name not in LARGE_LIGHT)

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
}


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
    """Outputs have their declared shapes, are finite and spread out, and differ for different inputs."""
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(serialized, options, providers=["CPUExecutionProvider"])
    first, second = (session.run(None, random_feeds(model, seed)) for seed in (1, 2))
    for value, one, other in zip(model.graph.output, first, second, strict=True):
        declared = tuple(dimension.dim_value for dimension in value.type.tensor_type.shape.dim)
        assert one.shape == declared
        assert np.isfinite(one).all()
        spread = one.std()
        assert spread > 0
        assert np.abs(one - other).max() > 1e-3 * spread


def operators(model: onnx.ModelProto) -> Counter[str]:
    return Counter(node.op_type for node in model.graph.node)


@pytest.mark.parametrize("name", BATCHED)
def test_a_network_runs_at_two_batch_sizes(name: str) -> None:
    for batch in (1, 2):
        model = zoo.build(name, batch=batch)
        serialized = model.SerializeToString()
        onnx.checker.check_model(serialized, full_check=True)
        assert (model.ir_version, model.opset_import[0].version) == (8, 17)
        assert_alive(model, serialized)


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
    assert operators(zoo.build(name)) == OPERATORS[name]


def test_resnext_differs_from_resnet_in_groups_alone() -> None:
    resnet, resnext = zoo.build("resnet50"), zoo.build("resnext50")
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


def test_every_name_is_described() -> None:
    assert len(set(zoo.names())) == 14
    for name in zoo.names():
        description = zoo.describe(name)
        assert description.name == name
        assert description.summary
        assert description.batch == (1 if name in zoo.light_networks() else None)


@pytest.mark.parametrize(
    ("name", "batch", "seed", "message"),
    [
        ("resnet", 1, 0, r"no network is called 'resnet'; the zoo has squeezenet, .*light-zfnet512"),
        ("resnet50", 0, 0, r"resnet50: expected a batch of at least 1, got 0"),
        ("resnet50", 1, -1, r"resnet50: expected a seed of at least 0, got -1"),
        ("light-resnet50", 2, 0, r"light-resnet50: its file fixes the batch at 1, got batch 2"),
    ],
)
def test_what_cannot_be_built_is_named(name: str, batch: int, seed: int, message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        zoo.build(name, batch=batch, seed=seed)


def test_describing_an_unknown_network_names_the_known_ones() -> None:
    with pytest.raises(InvalidOptionError, match="squeezenet"):
        zoo.describe("lenet")

"""The papers' benchmark networks, built in code with seeded weights: ``build("resnet50", batch=8)``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import onnx

from superopt.errors import InvalidOptionError
from superopt.zoo.bert import bert_base
from superopt.zoo.light import build_light, light_networks
from superopt.zoo.materialise import materialise
from superopt.zoo.nasrnn import nasrnn
from superopt.zoo.resnet import resnet50, resnext50
from superopt.zoo.squeezenet import squeezenet

__all__ = ["Description", "build", "describe", "light_networks", "materialise", "names"]


@dataclass(frozen=True)
class Description:
    """One network of the zoo; ``batch`` is the only batch that it comes in, or None for any."""

    name: str
    summary: str
    source: str
    batch: int | None


@dataclass(frozen=True)
class Network:
    """How to build a network at any batch: ``build(batch, seed)``."""

    summary: str
    source: str
    build: Callable[[int, int], onnx.ModelProto]


NETWORKS = {
    "squeezenet": Network(
        "SqueezeNet 1.1: eight fire modules without normalisation", "Iandola et al. 2016", squeezenet
    ),
    "resnet50": Network("ResNet-50: sixteen bottleneck blocks", "He et al. 2016", resnet50),
    "resnext50": Network("ResNeXt-50 32x4d: bottleneck blocks with 32 groups", "Xie et al. 2017", resnext50),
    "bert-base": Network("BERT-base: twelve encoder layers, 128 tokens", "Devlin et al. 2019", bert_base),
    "nasrnn": Network("NasRNN: five steps of eight gates, hidden size 512", "Zoph and Le 2017", nasrnn),
}


def names() -> tuple[str, ...]:
    """Every network that ``build`` knows."""
    return (*NETWORKS, *light_networks())


def describe(name: str) -> Description:
    """What ``name`` is. Raises InvalidOptionError for an unknown name."""
    if name in light_networks():
        return Description(name, "a network of the onnx package, weights redrawn", "ONNX model zoo", 1)
    network = _find(name)
    return Description(name, network.summary, network.source, None)


def build(name: str, *, batch: int = 1, seed: int = 0) -> onnx.ModelProto:
    """The network ``name`` for inputs of ``batch`` samples; the same arguments give the same bytes.

    Raises InvalidOptionError for an unknown name, a batch below 1, a negative seed, or a batch other than 1
    of a light network.
    """
    if batch < 1:
        raise InvalidOptionError(f"{name}: expected a batch of at least 1, got {batch}")
    if seed < 0:
        raise InvalidOptionError(f"{name}: expected a seed of at least 0, got {seed}")
    if name in light_networks():
        return build_light(name, batch, seed)
    return _find(name).build(batch, seed)


def _find(name: str) -> Network:
    if name not in NETWORKS:
        raise InvalidOptionError(f"no network is called {name!r}; the zoo has {', '.join(names())}")
    return NETWORKS[name]

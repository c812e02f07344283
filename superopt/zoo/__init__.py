"""Benchmark networks of the papers, built in code with seeded weights: ``build("resnet50", batch=8)``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast

import onnx

from superopt.errors import InvalidOptionError
from superopt.files import write_atomically
from superopt.zoo.blueprint import Blueprint
from superopt.zoo.catalogue import FAMILY, NETWORKS, Network, member
from superopt.zoo.light import build_light, light_networks
from superopt.zoo.materialise import materialise

__all__ = [
    "Blueprint", "Description", "blueprint", "build", "describe", "light_networks", "materialise", "names",
    "save",
]  # fmt: skip


@dataclass(frozen=True)
class Description:
    """A network of the zoo; ``batch`` is its only available batch size, or None for any. ``parameters`` is
    the published number, None for the networks of the onnx package. ``has_tokens`` says whether the number of
    tokens can be chosen."""

    name: str
    summary: str
    source: str
    batch: int | None
    parameters: int | None
    has_tokens: bool = False


def names() -> tuple[str, ...]:
    """Names of all networks that ``build`` supports, except the LLaMA decoders ``llama-LxW`` of L blocks of
    width W, which have no end."""
    return (*NETWORKS, *light_networks())


def describe(name: str) -> Description:
    """The description of ``name``. Raises InvalidOptionError for an unknown name."""
    if name in light_networks():
        return Description(name, "a network of the onnx package, weights redrawn", "ONNX model zoo", 1, None)
    network = _find(name)
    has_tokens = network.of_tokens is not None
    return Description(name, network.summary, network.source, None, network.parameters, has_tokens)


def blueprint(name: str, *, batch: int = 1, sequence: int | None = None) -> Blueprint:
    """The network ``name`` with weight descriptions instead of values; not for those of the onnx
    package. Raises InvalidOptionError for an unknown name, a network of the onnx package, a batch or a
    sequence below 1, or a sequence for a network whose number of tokens is fixed or smaller."""
    _check(name, batch, 0)
    network = None if name in light_networks() else _find(name)
    if sequence is not None:
        if network is None or network.of_tokens is None:
            raise InvalidOptionError(f"{name}: its number of tokens cannot be chosen, got {sequence}")
        if sequence < 1:
            raise InvalidOptionError(f"{name}: expected a sequence of at least 1 token, got {sequence}")
        return network.of_tokens(batch, sequence)
    if network is None:
        raise InvalidOptionError(f"{name} is read from a file with its weights: it has no blueprint")
    return network.build(batch)


def build(name: str, *, batch: int = 1, sequence: int | None = None, seed: int = 0) -> onnx.ModelProto:
    """The network ``name`` for inputs of ``batch`` samples, of ``sequence`` tokens each where that can be
    chosen; deterministic. Raises InvalidOptionError as ``blueprint`` does, and for a negative seed, a batch
    other than 1 of a network of the onnx package, or a network of more than 2 GB, which only ``save`` can
    write."""
    _check(name, batch, seed)
    if name in light_networks() and sequence is None:
        return build_light(name, batch, seed)
    return blueprint(name, batch=batch, sequence=sequence).model(seed)


def save(name: str, path: Path, *, batch: int = 1, sequence: int | None = None, seed: int = 0) -> int:
    """Writes the network ``name`` and returns the number of bytes; above 1 GB weights go to a second file.
    Raises InvalidOptionError as ``build`` does, except for size, and where the files cannot be written."""
    _check(name, batch, seed)
    if name in light_networks() and sequence is None:
        content = build_light(name, batch, seed).SerializeToString()
        write_atomically(path, content)
        return len(content)
    return blueprint(name, batch=batch, sequence=sequence).save(path, seed)


def _check(name: str, batch: int, seed: int) -> None:
    for what, number in (("batch", batch), ("seed", seed)):
        if not isinstance(cast("object", number), int):
            raise InvalidOptionError(f"{name}: expected a whole number as {what}, got {number!r}")
    if batch < 1:
        raise InvalidOptionError(f"{name}: expected a batch of at least 1, got {batch}")
    if seed < 0:
        raise InvalidOptionError(f"{name}: expected a seed of at least 0, got {seed}")


def _find(name: str) -> Network:
    network = NETWORKS.get(name) or member(name)
    if network is None:
        raise InvalidOptionError(
            f"unknown network {name!r}; the zoo has {', '.join(names())}, and {FAMILY}: a LLaMA decoder of L "
            "blocks of width W"
        )
    return network

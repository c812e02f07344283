"""Training steps in PyTorch: the network's ONNX graph by ``torch.nn.functional``, autograd, ``AdamW``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from benchmarks.training.graph import (
    Array,
    Attributes,
    Function,
    Network,
    Tensor,
    axes_of,
    integers,
    part_sizes,
    reshaped_to,
    sliced,
)


class TorchSteps:
    """Steps on one batch, with one thread. ``parameters`` names the trained weights. Raises UnsupportedError
    for a network with other nodes than ``FUNCTIONS`` has."""

    def __init__(
        self, network: Path, parameters: tuple[str, ...], batch: Mapping[str, Array], *, rate: float
    ) -> None:
        torch.set_num_threads(1)
        self._network = Network.read(network)
        self._network.require(FUNCTIONS)
        self._values = self._network.tensors(_tensor)
        for name in parameters:
            self._values[name].requires_grad_(requires_grad=True)
        trained = [self._values[name] for name in parameters]
        self._optimizer = torch.optim.AdamW(trained, lr=rate, weight_decay=0.01, fused=True)
        self._batch = {name: _tensor(array) for name, array in batch.items()}
        self._loss = self._compute

    def compile(self) -> None:
        """Compiles the forward and the backward pass by ``torch.compile``."""
        self._loss = torch.compile(self._compute)

    def advance(self) -> float:
        """Runs a step; returns the loss."""
        self._optimizer.zero_grad(set_to_none=True)
        loss = self._loss()
        loss.backward()
        self._optimizer.step()
        return float(loss.detach())

    def _compute(self) -> Tensor:
        logits = self._network.evaluated(FUNCTIONS, {**self._values, **self._batch})
        return functional.cross_entropy(logits.flatten(0, -2), self._batch["labels"].flatten())


def _tensor(array: Array) -> Tensor:
    return torch.from_numpy(np.array(array))


def _batch_norm(
    attributes: Attributes, x: Tensor, scale: Tensor, shift: Tensor, mean: Tensor, variance: Tensor
) -> Tensor:
    """In training mode, which updates the running statistics."""
    momentum, epsilon = attributes.get("momentum", 0.9), attributes.get("epsilon", 1e-5)
    return functional.batch_norm(
        x, mean, variance, scale, shift, training=True, momentum=1 - momentum, eps=epsilon
    )


def _clip(attributes: Attributes, x: Tensor, low: Tensor = None, high: Tensor = None) -> Tensor:
    low = attributes.get("min", low)
    high = attributes.get("max", high)
    return torch.clamp(x, *(None if bound is None else float(bound) for bound in (low, high)))


def _conv(attributes: Attributes, x: Tensor, weight: Tensor, bias: Tensor = None) -> Tensor:
    top, left, bottom, right = attributes.get("pads", (0, 0, 0, 0))
    padding = (top, left)
    if padding != (bottom, right):
        x, padding = functional.pad(x, (left, right, top, bottom)), (0, 0)
    strides, dilations = (tuple(attributes.get(name, (1, 1))) for name in ("strides", "dilations"))
    return functional.conv2d(x, weight, bias, strides, padding, dilations, attributes.get("group", 1))


def _gather(attributes: Attributes, table: Tensor, indices: Tensor) -> Tensor:
    axis = attributes.get("axis", 0)
    if isinstance(table, np.ndarray) and isinstance(indices, np.ndarray):
        return np.take(table, indices, axis)
    places = torch.as_tensor(np.array(indices)) if isinstance(indices, np.ndarray) else indices
    if axis == 0 and table.ndim == 2:
        return functional.embedding(places, table)
    taken = torch.index_select(table, axis, places.reshape(-1))
    return taken.reshape(*table.shape[:axis], *places.shape, *table.shape[axis + 1 :])


def _gemm(attributes: Attributes, x: Tensor, weight: Tensor, bias: Tensor = None) -> Tensor:
    x = x.t() if attributes.get("transA") else x
    return functional.linear(x, weight if attributes.get("transB") else weight.t(), bias)


def _layer_norm(attributes: Attributes, x: Tensor, scale: Tensor, shift: Tensor = None) -> Tensor:
    shape = x.shape[attributes.get("axis", -1) :]
    return functional.layer_norm(x, shape, scale, shift, attributes.get("epsilon", 1e-5))


def _max_pool(attributes: Attributes, x: Tensor) -> Tensor:
    return functional.max_pool2d(
        x,
        tuple(attributes["kernel_shape"]),
        tuple(attributes.get("strides", (1, 1))),
        tuple(attributes.get("pads", (0, 0)))[:2],
    )


def _mean(attributes: Attributes, x: Tensor, axes: Array | None = None) -> Tensor:
    return x.mean(axes_of(attributes, axes), keepdim=bool(attributes.get("keepdims", 1)))


def _split(attributes: Attributes, x: Tensor, sizes: Array | None = None) -> tuple[Tensor, ...]:
    axis = attributes.get("axis", 0)
    sizes = attributes.get("split", sizes)
    return torch.split(x, part_sizes(x.shape[axis], attributes.get("num_outputs", 1), sizes), axis)


def _unsqueeze(attributes: Attributes, x: Tensor, axes: Array | None = None) -> Tensor:
    for axis in sorted(axes_of(attributes, axes)):
        x = x.unsqueeze(axis)
    return x


def _pow(attributes: Attributes, x: Tensor, exponent: Tensor) -> Tensor:
    del attributes
    return torch.pow(x, float(exponent)) if exponent.ndim == 0 else torch.pow(x, exponent)


FUNCTIONS: Mapping[str, Function] = {
    "Add": lambda _, x, y: x + y,
    "BatchNormalization": _batch_norm,
    "Cast": lambda own, x: x.float() if own["to"] == 1 else x.long(),
    "Clip": _clip,
    "Concat": lambda own, *parts: torch.cat(parts, own["axis"]),
    "Conv": _conv,
    "Div": lambda _, x, y: x / y,
    "Dropout": lambda _, x, *_rest: x,
    "Erf": lambda _, x: torch.erf(x),
    "Flatten": lambda own, x: x.flatten(own.get("axis", 1)),
    "Gather": _gather,
    "Gemm": _gemm,
    "GlobalAveragePool": lambda _, x: functional.adaptive_avg_pool2d(x, 1),
    "Identity": lambda _, x: x,
    "LayerNormalization": _layer_norm,
    "MatMul": lambda _, x, y: torch.matmul(x, y),
    "MaxPool": _max_pool,
    "Mul": lambda _, x, y: x * y,
    "Pow": _pow,
    "ReduceMean": _mean,
    "Relu": lambda _, x: functional.relu(x),
    "Reshape": lambda _, x, shape: x.reshape(reshaped_to(x.shape, shape)),
    "Sigmoid": lambda _, x: torch.sigmoid(x),
    "Slice": sliced,
    "Softmax": lambda own, x: functional.softmax(x, own.get("axis", -1)),
    "Split": _split,
    "Sqrt": lambda _, x: torch.sqrt(x),
    "Sub": lambda _, x, y: x - y,
    "Tanh": lambda _, x: torch.tanh(x),
    "Transpose": lambda own, x: x.permute(integers(own["perm"])),
    "Unsqueeze": _unsqueeze,
    "Where": lambda _, condition, x, y: torch.where(condition.bool(), x, y),
}
"""What a node of each type computes."""

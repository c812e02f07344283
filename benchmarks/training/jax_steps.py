"""Training steps in JAX: the network's ONNX graph in ``jax.numpy``, gradients and AdamW as one program."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

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

Tensors = dict[str, Tensor]

_BETAS = (0.9, 0.999)
_EPSILON = 1e-8
_DECAY = 0.01


class JaxSteps:
    """Steps on one batch. ``parameters`` names the trained weights; running statistics are not updated.
    Raises UnsupportedError for a network with other nodes than ``FUNCTIONS`` has."""

    def __init__(
        self, network: Path, parameters: tuple[str, ...], batch: Mapping[str, Array], *, rate: float
    ) -> None:
        self._network = Network.read(network)
        self._network.require(FUNCTIONS)
        tensors = self._network.tensors(jnp.asarray)
        self._trained = {name: tensors.pop(name) for name in parameters}
        self._fixed = tensors
        self._means, self._squares = (jax.tree.map(jnp.zeros_like, self._trained) for _ in range(2))
        self._batch = {name: jnp.asarray(array) for name, array in batch.items()}
        self._rate = rate
        self._number = 0
        self._step = jax.jit(self._stepped, donate_argnums=(0, 1, 2))

    def advance(self) -> float:
        """Runs a step; returns the loss."""
        self._number += 1
        self._trained, self._means, self._squares, loss = self._step(
            self._trained, self._means, self._squares, self._batch, float(self._number)
        )
        jax.block_until_ready(self._trained)
        return float(loss)

    def _stepped(
        self, trained: Tensors, means: Tensors, squares: Tensors, batch: Tensors, number: Any
    ) -> tuple[Tensors, Tensors, Tensors, Tensor]:
        """Loshchilov and Hutter, "Decoupled weight decay regularization", algorithm 2."""
        loss, slopes = jax.value_and_grad(self._loss)(trained, batch)
        first, second = _BETAS
        means = jax.tree.map(lambda old, new: first * old + (1 - first) * new, means, slopes)
        squares = jax.tree.map(lambda old, new: second * old + (1 - second) * new * new, squares, slopes)

        def moved(old: Tensor, mean: Tensor, square: Tensor) -> Tensor:
            root = jnp.sqrt(square / (1 - second**number)) + _EPSILON
            return old * (1 - self._rate * _DECAY) - self._rate / (1 - first**number) * mean / root

        return jax.tree.map(moved, trained, means, squares), means, squares, loss

    def _loss(self, trained: Tensors, batch: Tensors) -> Tensor:
        logits = self._network.evaluated(FUNCTIONS, {**self._fixed, **batch, **trained})
        logarithms = jax.nn.log_softmax(logits, axis=-1)
        return -jnp.take_along_axis(logarithms, batch["labels"][..., None], axis=-1).mean()


def _batch_norm(
    attributes: Attributes, x: Tensor, scale: Tensor, shift: Tensor, mean: Tensor, variance: Tensor
) -> Tensor:
    """In training mode."""
    del mean, variance
    centre = x.mean((0, 2, 3), keepdims=True)
    spread = jnp.square(x - centre).mean((0, 2, 3), keepdims=True)
    factor = lax.rsqrt(spread + attributes.get("epsilon", 1e-5)) * scale[:, None, None]
    return (x - centre) * factor + shift[:, None, None]


def _clip(attributes: Attributes, x: Tensor, low: Tensor = None, high: Tensor = None) -> Tensor:
    return jnp.clip(x, attributes.get("min", low), attributes.get("max", high))


def _conv(attributes: Attributes, x: Tensor, weight: Tensor, bias: Tensor = None) -> Tensor:
    top, left, bottom, right = attributes.get("pads", (0, 0, 0, 0))
    result = lax.conv_general_dilated(
        x,
        weight,
        tuple(attributes.get("strides", (1, 1))),
        ((top, bottom), (left, right)),
        rhs_dilation=tuple(attributes.get("dilations", (1, 1))),
        feature_group_count=attributes.get("group", 1),
    )
    return result if bias is None else result + bias[:, None, None]


def _gather(attributes: Attributes, table: Tensor, indices: Tensor) -> Tensor:
    library = np if isinstance(table, np.ndarray) and isinstance(indices, np.ndarray) else jnp
    return library.take(table, indices, attributes.get("axis", 0))


def _gemm(attributes: Attributes, x: Tensor, weight: Tensor, bias: Tensor = None) -> Tensor:
    product = (x.T if attributes.get("transA") else x) @ (weight.T if attributes.get("transB") else weight)
    return product if bias is None else product + bias


def _layer_norm(attributes: Attributes, x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    centre = x.mean(-1, keepdims=True)
    spread = jnp.square(x - centre).mean(-1, keepdims=True)
    return (x - centre) * lax.rsqrt(spread + attributes.get("epsilon", 1e-5)) * scale + shift


def _max_pool(attributes: Attributes, x: Tensor) -> Tensor:
    top, left, bottom, right = attributes.get("pads", (0, 0, 0, 0))
    return lax.reduce_window(
        x,
        -jnp.inf,
        lax.max,
        (1, 1, *attributes["kernel_shape"]),
        (1, 1, *attributes.get("strides", (1, 1))),
        ((0, 0), (0, 0), (top, bottom), (left, right)),
    )


def _mean(attributes: Attributes, x: Tensor, axes: Array | None = None) -> Tensor:
    return x.mean(axes_of(attributes, axes), keepdims=bool(attributes.get("keepdims", 1)))


def _split(attributes: Attributes, x: Tensor, sizes: Array | None = None) -> tuple[Tensor, ...]:
    axis = attributes.get("axis", 0)
    parts = part_sizes(x.shape[axis], attributes.get("num_outputs", 1), attributes.get("split", sizes))
    return tuple(jnp.split(x, np.cumsum(parts)[:-1], axis))


FUNCTIONS: Mapping[str, Function] = {
    "Add": lambda _, x, y: x + y,
    "BatchNormalization": _batch_norm,
    "Cast": lambda own, x: x.astype(jnp.float32 if own["to"] == 1 else int),
    "Clip": _clip,
    "Concat": lambda own, *parts: jnp.concatenate(parts, own["axis"]),
    "Conv": _conv,
    "Div": lambda _, x, y: x / y,
    "Dropout": lambda _, x, *_rest: x,
    "Erf": lambda _, x: lax.erf(x),
    "Flatten": lambda _, x: x.reshape(x.shape[0], -1),
    "Gather": _gather,
    "Gemm": _gemm,
    "GlobalAveragePool": lambda _, x: x.mean((2, 3), keepdims=True),
    "Identity": lambda _, x: x,
    "LayerNormalization": _layer_norm,
    "MatMul": lambda _, x, y: x @ y,
    "MaxPool": _max_pool,
    "Mul": lambda _, x, y: x * y,
    "Pow": lambda _, x, exponent: jnp.power(x, exponent),
    "ReduceMean": _mean,
    "Relu": lambda _, x: jax.nn.relu(x),
    "Reshape": lambda _, x, shape: x.reshape(reshaped_to(x.shape, shape)),
    "Sigmoid": lambda _, x: jax.nn.sigmoid(x),
    "Slice": sliced,
    "Softmax": lambda own, x: jax.nn.softmax(x, own.get("axis", -1)),
    "Split": _split,
    "Sqrt": lambda _, x: jnp.sqrt(x),
    "Sub": lambda _, x, y: x - y,
    "Tanh": lambda _, x: jnp.tanh(x),
    "Transpose": lambda own, x: x.transpose(integers(own["perm"])),
    "Unsqueeze": lambda own, x, axes=None: jnp.expand_dims(x, axes_of(own, axes)),
    "Where": lambda _, condition, x, y: jnp.where(condition, x, y),
}
"""What a node of each type computes."""

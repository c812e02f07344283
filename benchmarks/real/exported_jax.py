"""Exports networks of JAX as users have them: written in Flax, exported by jax2onnx.

    build/real/jax-environment/bin/python benchmarks/real/exported_jax.py jax-vit|jax-convmixer [--out DIR]

Runs apart from superopt, which needs no JAX. Weights are random with the seed 0; the batch is open.
"""

# pyright: basic, reportMissingImports=false
# Neither package is in the environment that types are checked in.

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import onnx
from flax import nnx
from jax2onnx import to_onnx

CLASSES = 1000


class MixerBlock(nnx.Module):
    """A block of ConvMixer: depthwise convolution with a shortcut, then a pointwise one."""

    def __init__(self, width: int, rngs: nnx.Rngs) -> None:
        self.depthwise = nnx.Conv(width, width, (5, 5), feature_group_count=width, rngs=rngs)
        self.first = nnx.BatchNorm(width, use_running_average=True, rngs=rngs)
        self.pointwise = nnx.Conv(width, width, (1, 1), rngs=rngs)
        self.second = nnx.BatchNorm(width, use_running_average=True, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Shape [batch, height, width, channels], which stays."""
        x = x + self.first(nnx.gelu(self.depthwise(x)))
        return self.second(nnx.gelu(self.pointwise(x)))


class ConvMixer(nnx.Module):
    """ConvMixer-256/8 (Trockman and Kolter 2022) with four blocks and kernels of 5."""

    def __init__(self, rngs: nnx.Rngs, width: int = 256, depth: int = 4) -> None:
        self.stem = nnx.Conv(3, width, (7, 7), strides=(7, 7), rngs=rngs)
        self.normalised = nnx.BatchNorm(width, use_running_average=True, rngs=rngs)
        self.blocks = nnx.List([MixerBlock(width, rngs) for _ in range(depth)])
        self.head = nnx.Linear(width, CLASSES, rngs=rngs)

    def __call__(self, image: jax.Array) -> jax.Array:
        """Image of shape [batch, 224, 224, 3] to scores of classes."""
        x = self.normalised(nnx.gelu(self.stem(image)))
        for block in self.blocks:
            x = block(x)
        return self.head(jnp.mean(x, axis=(1, 2)))


class EncoderBlock(nnx.Module):
    """A block of a vision transformer, normalised before attention and perceptron."""

    def __init__(self, width: int, heads: int, rngs: nnx.Rngs) -> None:
        self.first = nnx.LayerNorm(width, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(heads, width, decode=False, rngs=rngs)
        self.second = nnx.LayerNorm(width, rngs=rngs)
        self.wide = nnx.Linear(width, 4 * width, rngs=rngs)
        self.narrow = nnx.Linear(4 * width, width, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Shape [batch, patches, width], which stays."""
        x = x + self.attention(self.first(x))
        return x + self.narrow(nnx.gelu(self.wide(self.second(x))))


class VisionTransformer(nnx.Module):
    """DeiT-tiny (Touvron et al. 2021) with three blocks, the mean of patches in place of a class token."""

    def __init__(self, rngs: nnx.Rngs, width: int = 192, depth: int = 3, heads: int = 3) -> None:
        self.stem = nnx.Conv(3, width, (16, 16), strides=(16, 16), padding="VALID", rngs=rngs)
        self.positions = nnx.Param(0.02 * jax.random.normal(rngs.params(), (1, 196, width)))
        self.blocks = nnx.List([EncoderBlock(width, heads, rngs) for _ in range(depth)])
        self.normalised = nnx.LayerNorm(width, rngs=rngs)
        self.head = nnx.Linear(width, CLASSES, rngs=rngs)

    def __call__(self, image: jax.Array) -> jax.Array:
        """Image of shape [batch, 224, 224, 3] to scores of classes."""
        patches = self.stem(image)
        x = patches.reshape(patches.shape[0], -1, patches.shape[-1]) + self.positions[...]
        for block in self.blocks:
            x = block(x)
        return self.head(jnp.mean(self.normalised(x), axis=1))


NETWORKS: dict[str, Callable[[nnx.Rngs], nnx.Module]] = {
    "jax-vit": VisionTransformer,
    "jax-convmixer": ConvMixer,
}


def main() -> int:
    """Writes ``OUT/NAME.onnx``."""
    parser = argparse.ArgumentParser(prog="exported_jax", description=__doc__)
    parser.add_argument("name", choices=NETWORKS)
    parser.add_argument("--out", type=Path, default=Path("build/bench/exported"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    network = NETWORKS[given.name](nnx.Rngs(0))
    model = to_onnx(network, [("batch", 224, 224, 3)], input_names=["image"], output_names=["scores"])
    path = given.out / f"{given.name}.onnx"
    onnx.save(model, path)
    sys.stdout.write(f"{path}: {path.stat().st_size / 1e6:.1f} MB, {len(model.graph.node)} nodes\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

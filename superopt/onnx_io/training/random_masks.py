"""Random masks as integer ONNX nodes: functions of seed, step, layer and element index, without state.

All numbers are 32-bit and unsigned; sums and products wrap. ``mix`` is the finaliser ``lowbias32`` of
C. Wellons, Prospecting for Hash Functions (2018):

    mix(h): h ^= h >> 16;  h *= 0x7FEB352D;  h ^= h >> 15;  h *= 0x846CA68B;  h ^= h >> 16

Two keys are computed for each layer, numbered from 0 in the order of the graph, with lane j = 0, 1:

    state[j] = (0x9E3779B9, 0x85157AF5)[j]
    for word in (seed mod 2^32, seed div 2^32, step mod 2^32, step div 2^32):
        state[j] = mix(state[j] ^ word)
    key[j] = mix(state[j] ^ (layer + 1) * 0x9E3779B1)

``seed`` and ``step`` are 64-bit, read as two's complement. Element i of the tensor in row-major order, modulo
2^32, is kept if ``hash(i) < threshold``, where threshold = round((1 - ratio) * 2^32) and

    hash(i): h = i ^ key[0];  h ^= h >> 16;  h *= 0x7FEB352D;  h ^= h >> 15;
             h += key[1];  h *= 0x846CA68B;  h ^= h >> 15;  h *= 0x9E3779B1

For fixed keys the hash is a bijection, so the probability is exact. The second key enters between the two
rounds: with the first alone, the masks of two layers would be permutations of each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from superopt.onnx_io.node_building import NodeBuilder

WORD = np.uint32
LANES = (0x9E3779B9, 0x85157AF5)
FIRST_FACTOR, SECOND_FACTOR, GOLDEN = 0x7FEB352D, 0x846CA68B, 0x9E3779B1
WORDS = 1 << 32


@dataclass(frozen=True, slots=True)
class Counters:
    """Names of the int64 scalars that all masks depend on."""

    seed: str
    step: str


class MaskWriter:
    """Writes the masks of one graph with ``layers`` masked layers into ``builder``."""

    def __init__(self, builder: NodeBuilder, counters: Counters, layers: int) -> None:
        self._builder = builder
        self._keys = self._all_keys(counters, layers)

    def keep(self, layer: int, data: str, threshold: int, first: str | None, name: str) -> str:
        """The boolean tensor, with the shape of ``data``, of the elements that a layer keeps; ``threshold``
        of 2^32 elements are. ``first`` is the int64 scalar global index of the first element, 0 if None."""
        build = self._builder
        indices = self._words(self._indices(data, first, name), name)
        h = self._binary("BitwiseXor", indices, self._keys[2 * layer], name)
        h = self._shift_xor(h, 16, name)
        h = self._times(h, FIRST_FACTOR, name)
        h = self._shift_xor(h, 15, name)
        h = self._binary("Add", h, self._keys[2 * layer + 1], name)
        h = self._times(h, SECOND_FACTOR, name)
        h = self._shift_xor(h, 15, name)
        h = self._times(h, GOLDEN, name)
        limit = build.constant("mask_threshold", np.array(threshold, WORD))
        flat = self._binary("Less", h, limit, name)
        shape = build.add("Shape", [data], f"{name}.shape")
        return build.add("Reshape", [flat, shape], f"{name}.keep", {"allowzero": 1})

    def _indices(self, data: str, first: str | None, name: str) -> str:
        build = self._builder
        zero, one = (build.constant(f"mask_{n}", np.array(n, np.int64)) for n in (0, 1))
        end = build.add("Size", [data], f"{name}.size")
        if first is not None:
            end = build.add("Add", [first, end], f"{name}.end")
        return build.add("Range", [first or zero, end, one], f"{name}.index")

    def _all_keys(self, counters: Counters, layers: int) -> Sequence[str]:
        """The names of both keys of each layer, tensors of one element."""
        build, name = self._builder, "mask_key"
        state = build.constant("mask_lanes", np.array(LANES, WORD))
        for counter in (counters.seed, counters.step):
            for word in self._halves(counter):
                state = self._mix(self._binary("BitwiseXor", state, word, name), name)
        numbers = np.arange(1, layers + 1, dtype=np.uint64).reshape(layers, 1) * GOLDEN % WORDS
        numbered = build.constant("mask_layers", numbers.astype(WORD))
        keys = self._mix(self._binary("BitwiseXor", state, numbered, name), name)
        flat = build.add("Reshape", [keys, build.constant("mask_flat", np.array([-1], np.int64))], name)
        return [
            build.add("Gather", [flat, build.constant(f"mask_{n}", np.array(n, np.int64))], f"{name}_{n}")
            for n in range(2 * layers)
        ]

    def _halves(self, counter: str) -> tuple[str, str]:
        """The low and the high 32 bits of an int64."""
        build, name = self._builder, f"mask_{counter}"
        whole = build.add("Cast", [counter], name, {"to": TensorProto.UINT64})
        by = build.constant("mask_shift", np.array(32, np.uint64))
        high = build.add("BitShift", [whole, by], name, {"direction": "RIGHT"})
        return self._words(whole, name), self._words(high, name)

    def _mix(self, h: str, name: str) -> str:
        h = self._times(self._shift_xor(h, 16, name), FIRST_FACTOR, name)
        h = self._times(self._shift_xor(h, 15, name), SECOND_FACTOR, name)
        return self._shift_xor(h, 16, name)

    def _shift_xor(self, h: str, bits: int, name: str) -> str:
        by = self._builder.constant("mask_shift", np.array(bits, WORD))
        return self._binary(
            "BitwiseXor",
            h,
            self._builder.add("BitShift", [h, by], f"{name}.bits", {"direction": "RIGHT"}),
            name,
        )

    def _times(self, h: str, factor: int, name: str) -> str:
        return self._binary("Mul", h, self._builder.constant("mask_factor", np.array(factor, WORD)), name)

    def _binary(self, op_type: str, left: str, right: str, name: str) -> str:
        return self._builder.add(op_type, [left, right], f"{name}.bits")

    def _words(self, value: str, name: str) -> str:
        """The low 32 bits of an integer tensor."""
        return self._builder.add("Cast", [value], f"{name}.bits", {"to": TensorProto.UINT32})

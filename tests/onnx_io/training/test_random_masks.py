"""Dropout masks: equal to their definition, independent of how a batch is split, and random."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from superopt.ir.plan import Plan
from superopt.onnx_io import lift, load_model, lower
from superopt.onnx_io.training.training_mode import ForwardSettings, in_training_mode
from tests.onnx_io.kit import Array, model, node, run, session, tensor, value
from tests.onnx_io.mask_reference import bits, kept

TWO = model(
    [
        node("Dropout", "x tenth", "a"),
        node("Relu", "a", "b"),
        node("Dropout", "b half", "y"),
    ],
    [value("x", ["n", "k"])],
    [value("a", ["n", "k"]), value("y", ["n", "k"])],
    [tensor("tenth", 0.1), tensor("half", 0.5)],
)
FORWARD = in_training_mode(TWO, ForwardSettings(first_sample="first")).model
CONTENT = FORWARD.SerializeToString()
SESSION = session(CONTENT)


def masks(rows: int, columns: int, **counters: int) -> list[Array]:
    """What both layers make of ones."""
    feeds = {name: np.array(number, np.int64) for name, number in counters.items()}
    return SESSION.run(None, {"x": np.ones((rows, columns), np.float32), **feeds})


INT64 = st.integers(-(2**63), 2**63 - 1)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 9), st.integers(1, 40), INT64, INT64)
def test_masks_are_those_of_the_definition(rows: int, columns: int, seed: int, step: int) -> None:
    first, second = masks(rows, columns, seed=seed, step=step)
    shape, elements = (rows, columns), rows * columns
    tenth = kept(seed, step, 0, elements, float(np.float32(0.1))).reshape(shape)
    half = kept(seed, step, 1, elements, 0.5).reshape(shape)
    np.testing.assert_array_equal(first, np.where(tenth, np.float32(1 / 0.9), np.float32(0)))
    np.testing.assert_array_equal(second, first * np.where(half, np.float32(2), np.float32(0)))


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 8), st.integers(1, 8), st.integers(1, 30))
def test_parts_of_a_batch_get_the_masks_of_the_whole(before: int, after: int, columns: int) -> None:
    whole = masks(before + after, columns, seed=5, step=9)
    upper = masks(before, columns, seed=5, step=9)
    lower_rows = masks(after, columns, seed=5, step=9, first=before)
    for every, *parts in zip(whole, upper, lower_rows, strict=True):
        np.testing.assert_array_equal(every, np.concatenate(parts))


def test_the_element_index_wraps_after_all_32_bits() -> None:
    first, _ = masks(1, 64, seed=1, step=1, first=2**26 - 1)
    second, _ = masks(1, 64, seed=1, step=1, first=2**26)
    zero, _ = masks(1, 64, seed=1, step=1)
    np.testing.assert_array_equal(second, zero)
    assert (first != zero).any()


def test_without_a_seed_and_a_step_masks_are_those_of_seed_0_and_step_1() -> None:
    np.testing.assert_array_equal(masks(4, 30)[1], masks(4, 30, seed=0, step=1)[1])


def test_masks_survive_lifting_and_lowering() -> None:
    lifted = lift(load_model(FORWARD))
    content = lower(lifted, lifted.graph, Plan()).to_bytes()
    feeds = {"x": np.ones((7, 11), np.float32), "step": np.array(3, np.int64)}
    for expected, got in zip(run(CONTENT, feeds), run(content, feeds), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_the_nodes_of_a_mask_have_no_state() -> None:
    operators = {n.op_type for n in FORWARD.graph.node}
    assert operators == {
        "Add", "BitShift", "BitwiseXor", "Cast", "Div", "Gather", "Less", "Max", "Mul", "Range", "Relu",
        "Reshape", "Shape", "Size",
    }  # fmt: skip


ELEMENTS = 1 << 17
STREAMS = [(seed, step, layer) for seed in (0, 1, 12345) for step in (1, 2, 1000) for layer in (0, 11)]
RATIOS = (0.1, 0.5, 0.9)


def centred(stream: tuple[int, int, int], ratio: float) -> NDArray[np.float64]:
    """Keep or drop as a number of mean 0 and variance 1."""
    mask = kept(*stream, ELEMENTS, ratio)
    return (mask - (1 - ratio)) / np.sqrt(ratio * (1 - ratio))


def deviations(products: NDArray[np.float64]) -> float:
    """The sum of independent products of mean 0 and variance 1, in standard deviations."""
    return float(products.sum() / np.sqrt(products.size))


@pytest.mark.parametrize("ratio", RATIOS)
def test_the_share_of_kept_elements_is_as_asked(ratio: float) -> None:
    scores = np.array([deviations(centred(stream, ratio)) for stream in STREAMS])
    assert np.abs(scores).max() < 4
    assert 0.5 < scores.std() < 1.6


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("lag", [1, 2, 3, 4, 7, 8, 16, 64, 100, 512, 768, 4096, 65536])
def test_elements_are_independent_of_their_neighbours(ratio: float, lag: int) -> None:
    masks = (centred(stream, ratio) for stream in STREAMS)
    scores = np.array([deviations(mask[lag:] * mask[:-lag]) for mask in masks])
    assert np.abs(scores).max() < 4.5
    assert 0.5 < scores.std() < 1.6


NEIGHBOURS = {
    "step": (0, 1, 0),
    "later step": (0, 1 << 16, 0),
    "far step": (0, 1 << 32, 0),
    "seed": (1, 0, 0),
    "far seed": (1 << 40, 0, 0),
    "layer": (0, 0, 1),
    "seed for step": (1, -1, 0),
}


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("shift", NEIGHBOURS.values(), ids=NEIGHBOURS.keys())
@pytest.mark.parametrize("lag", [0, 1])
def test_streams_are_independent(ratio: float, shift: tuple[int, int, int], lag: int) -> None:
    pairs = [(stream, tuple(a + b for a, b in zip(stream, shift, strict=True))) for stream in STREAMS]
    scores = np.array(
        [
            deviations(centred(a, ratio)[lag:] * centred((b[0], b[1], b[2]), ratio)[: ELEMENTS - lag])
            for a, b in pairs
        ]
    )
    assert np.abs(scores).max() < 4.5
    assert 0.5 < scores.std() < 1.6


def chi_square(counts: NDArray[np.int64]) -> float:
    """Of counts that are expected to be equal, in standard deviations from what chance gives."""
    expected = counts.mean()
    cells = counts.size - 1
    return float((np.square(counts - expected).sum() / expected - cells) / np.sqrt(2 * cells))


@pytest.mark.parametrize("stream", STREAMS[::4])
def test_bits_are_uniform(stream: tuple[int, int, int]) -> None:
    words = bits(*stream, ELEMENTS)
    upper = np.bincount(words >> np.uint32(22), minlength=1 << 10)
    lower_bits = np.bincount(words & np.uint32(1023), minlength=1 << 10)
    eight = np.packbits(words < 2**31)
    assert abs(chi_square(upper)) < 5
    assert abs(chi_square(lower_bits)) < 5
    assert abs(chi_square(np.bincount(eight, minlength=256))) < 5


@pytest.mark.parametrize("axis", ["seed", "step", "layer"])
def test_an_element_is_uniform_over_streams(axis: str) -> None:
    counters = [{"seed": 3, "step": 3, "layer": 3, axis: number} for number in range(4096)]
    words = np.array([bits(c["seed"], c["step"], c["layer"], 16) for c in counters])
    for element in words.T:
        assert abs(chi_square(np.bincount(element >> np.uint32(26), minlength=64))) < 5
        signs = np.where(element < 2**31, 1.0, -1.0)
        assert abs(deviations(signs[1:] * signs[:-1])) < 4.5


def test_a_forward_pass_is_a_valid_model() -> None:
    onnx.checker.check_model(FORWARD, full_check=True)

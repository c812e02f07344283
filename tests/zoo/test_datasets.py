"""Samples to train on fit their networks, can be repeated, and can be learnt."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from superopt import zoo
from superopt.errors import InvalidOptionError
from superopt.zoo import datasets
from superopt.zoo.datasets import Samples

DATA: dict[str, tuple[Callable[[int, int], Samples], int]] = {
    "light-mlp": (datasets.digits, 10),
    "mlp-mnist": (lambda samples, seed: datasets.digits(samples, seed, 28), 10),
    "light-resnet18": (datasets.images, 10),
    "light-vgg16": (datasets.images, 10),
    "light-llama": (datasets.text, 128),
    "light-lstm-lm": (lambda samples, seed: datasets.text(samples, seed, 8), 128),
    "light-transformer": (datasets.reversals, 128),
    "light-u-net": (datasets.masks, 2),
    "light-ncf": (datasets.ratings, 2),
}
"""Samples and classes for each network."""


@pytest.mark.parametrize("name", DATA)
def test_samples_fit_their_network(name: str) -> None:
    draw, classes = DATA[name]
    samples = dict(draw(6, 0))
    answers = samples.pop("labels") if "labels" in samples else samples.pop("targets")
    inputs = {
        value.name: value.type.tensor_type for value in zoo.blueprint(name, batch=6).skeleton.graph.input
    }
    for key, array in samples.items():
        assert array.shape == tuple(dimension.dim_value for dimension in inputs[key].shape.dim)
        assert array.dtype == (np.float32 if inputs[key].elem_type == 1 else np.int64)
    assert all(key in samples or key[0] in "hc" for key in inputs), "only initial states are left open"
    assert answers.shape[0] == 6
    assert answers.dtype == (np.float32 if name == "light-ncf" else np.int64)
    assert 0 <= answers.min() <= answers.max() < classes


@pytest.mark.parametrize("name", DATA)
def test_a_seed_decides_the_samples(name: str) -> None:
    draw, _ = DATA[name]
    first, again, other = draw(5, 3), draw(5, 3), draw(5, 4)
    for key, array in first.items():
        np.testing.assert_array_equal(array, again[key])
    assert any((array != other[key]).any() for key, array in first.items())


def fitted(draw: Callable[[int, int], Samples]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Scores of a linear classifier, fitted to samples of one seed, for those of another; their labels."""

    def features(samples: Samples) -> NDArray[np.float64]:
        flat = samples["input"].reshape(len(samples["input"]), -1).astype(np.float64)
        return np.concatenate([flat, np.ones((len(flat), 1))], axis=1)

    known, new = draw(4000, 0), draw(500, 1)
    x, wanted = features(known), np.eye(10)[known["labels"]]
    solved = np.linalg.solve(x.T @ x + np.eye(x.shape[1]), x.T @ wanted)
    return features(new) @ solved, new["labels"]


@pytest.mark.parametrize(("name", "accuracy"), [("light-mlp", 0.8), ("light-resnet18", 0.6)])
def test_labels_can_be_learnt_from_other_samples(name: str, accuracy: float) -> None:
    draw, classes = DATA[name]
    if name == "light-resnet18":
        draw = lambda samples, seed: datasets.images(samples, seed, 8)  # noqa: E731
    scores, labels = fitted(draw)
    assert (scores.argmax(axis=1) == labels).mean() > accuracy
    assert np.bincount(labels, minlength=classes).min() > 0.3 * len(labels) / classes


def test_a_digit_looks_as_it_should() -> None:
    samples = datasets.digits(200, 0, 8)
    mean = samples["input"][samples["labels"] == 7].mean(axis=0).reshape(8, 8)
    assert mean[0:2, 2:6].mean() > 0.3, "the bar of the seven"
    assert mean[5:, 6:].mean() < 0.1, "nothing at the lower right"


def test_labels_of_a_text_are_its_next_characters() -> None:
    samples = datasets.text(50, 0, 12)
    np.testing.assert_array_equal(samples["tokens"][:, 1:], samples["labels"][:, :-1])
    spaces = (samples["tokens"] == ord(" ")).mean()
    assert 0.1 < spaces < 0.5


def test_a_reversal_is_told_by_the_tokens_before() -> None:
    samples = datasets.reversals(20, 0, 9)
    np.testing.assert_array_equal(samples["labels"], samples["source"][:, ::-1])
    np.testing.assert_array_equal(samples["target"][:, 1:], samples["labels"][:, :-1])
    assert not samples["target"][:, 0].any()


def test_discs_are_brighter_than_their_surroundings() -> None:
    samples = datasets.masks(50, 0)
    image, inside = samples["input"][:, 0], samples["labels"] == 1
    assert image[inside].mean() == pytest.approx(1, abs=0.05)
    assert image[~inside].mean() == pytest.approx(-1, abs=0.05)
    assert 0.05 < inside.mean() < 0.5


def test_ratings_have_the_rank_of_their_factors() -> None:
    """Samples of different seeds agree on every pair of user and item."""
    known = {}
    for seed in (0, 1):
        samples = datasets.ratings(2000, seed, users=20, items=10)
        for user, item, target in zip(
            *(samples[key].ravel() for key in ("user", "item", "targets")), strict=True
        ):
            assert known.setdefault((user, item), target) == target
    assert 0.3 < np.mean(list(known.values())) < 0.7


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: datasets.digits(0), "expected a whole number of samples, at least 1, got 0"),
        (lambda: datasets.digits("x"), "expected a whole number of samples, at least 1, got 'x'"),
        (lambda: datasets.digits(1, side=7), "expected a whole number of side, at least 8, got 7"),
        (lambda: datasets.images(1, classes=1), "expected a whole number of classes, at least 2, got 1"),
        (lambda: datasets.text(1, length=0), "expected a whole number of length, at least 1, got 0"),
        (lambda: datasets.ratings(1, users=0), "expected a whole number of users, at least 1, got 0"),
    ],
)
def test_sizes_that_are_too_small_are_named(call: Callable[[], Samples], message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        call()

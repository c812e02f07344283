"""Samples to train on, drawn or taken from Python's documentation: arrays by the names of inputs.

Every function returns ``samples`` samples along the first axis, and the same arrays for the same arguments.
Different seeds draw different samples of the same task, so that one can train on one seed and test on
another. All raise InvalidOptionError for sizes that are too small.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pydoc_data.topics import topics
from typing import cast

import numpy as np
from numpy.typing import NDArray

from superopt.errors import InvalidOptionError
from superopt.zoo.strokes import CLASSES, drawn

__all__ = ["CHARACTERS", "Samples", "digits", "images", "masks", "ratings", "reversals", "text"]

Samples = Mapping[str, NDArray[np.float32] | NDArray[np.int64]]
"""Arrays by the name of the network's input, or ``labels`` (classes) or ``targets`` (numbers)."""

CHARACTERS = 128
"""Tokens of the texts: ASCII."""

COARSE = 4
"""Height and width of the patterns in random images."""

RANK = 4


def digits(samples: int, seed: int = 0, side: int = 8) -> Samples:
    """Drawn digits: ``input`` [n, side * side] in [0, 1], rows from above, and ``labels`` [n] from 0 to 9."""
    _check("samples", samples, 1)
    _check("side", side, 8)
    random = np.random.default_rng(seed)
    labels = random.integers(0, CLASSES, samples)
    return {"input": drawn(labels, side, random).reshape(samples, side * side), "labels": labels}


def images(samples: int, seed: int = 0, side: int = 32, classes: int = 10) -> Samples:
    """Random images: ``input`` [n, 3, side, side] with mean 0 and variance 1, and ``labels`` [n], the class
    that a fixed random network of two layers sees in the 4 x 4 pattern under the noise."""
    _check("samples", samples, 1)
    _check("side", side, COARSE)
    _check("classes", classes, 2)
    random = np.random.default_rng(seed)
    pattern = random.standard_normal((samples, 3, COARSE, COARSE))
    teacher = np.random.default_rng(classes)
    hidden = np.tanh(pattern.reshape(samples, -1) @ teacher.normal(0, 0.15, (3 * COARSE**2, 64)))
    labels = (hidden @ teacher.standard_normal((64, classes))).argmax(axis=1)
    places = np.arange(side) * COARSE // side
    noise = random.standard_normal((samples, 3, side, side))
    mixed = np.sqrt(0.9) * pattern[:, :, places][..., places] + np.sqrt(0.1) * noise
    return {"input": mixed.astype(np.float32), "labels": labels.astype(np.int64)}


def text(samples: int, seed: int = 0, length: int = 16) -> Samples:
    """Pieces of Python's documentation (``pydoc_data.topics`` of the running version): ``tokens``
    [n, length], the ASCII code of each character, and ``labels`` [n, length], that of the next one."""
    _check("length", length, 1)
    pieces = _pieces(samples, seed, length + 1)
    return {"tokens": pieces[:, :-1].copy(), "labels": pieces[:, 1:].copy()}


def reversals(samples: int, seed: int = 0, length: int = 16) -> Samples:
    """Sentences to be written backwards: ``source`` [n, length] as in ``text``, ``labels`` the same from its
    end to its start, and ``target`` the labels moved on by one, behind token 0."""
    _check("length", length, 1)
    source = _pieces(samples, seed, length)
    labels = source[:, ::-1].copy()
    target = np.concatenate([np.zeros((samples, 1), np.int64), labels[:, :-1]], axis=1)
    return {"source": source, "target": target, "labels": labels}


def masks(samples: int, seed: int = 0, side: int = 32) -> Samples:
    """Discs in noise: ``input`` [n, 1, side, side], and ``labels`` [n, side, side], 1 inside a disc and 0
    elsewhere."""
    _check("samples", samples, 1)
    _check("side", side, 8)
    random = np.random.default_rng(seed)
    centres = random.uniform(0.2, 0.8, (samples, 2, 2, 1, 1)) * side
    radii = random.uniform(0.1, 0.25, (samples, 2, 1, 1)) * side
    middle = np.arange(side) + 0.5
    rows, columns = middle[:, None], middle
    distances = np.hypot(rows - centres[:, :, 0], columns - centres[:, :, 1])
    beyond: NDArray[np.float64] = (distances - radii).min(axis=1)
    inside = beyond < 0
    noisy = 2.0 * inside - 1.0 + random.standard_normal(inside.shape)
    return {"input": noisy[:, None].astype(np.float32), "labels": inside.astype(np.int64)}


def ratings(samples: int, seed: int = 0, users: int = 200, items: int = 100) -> Samples:
    """Interactions: ``user`` [n], ``item`` [n], and ``targets`` [n, 1], 1 where the product of the factors of
    user and item, four each, is positive, else 0."""
    _check("samples", samples, 1)
    _check("users", users, 1)
    _check("items", items, 1)
    teacher = np.random.default_rng(RANK)
    of_users, of_items = teacher.standard_normal((users, RANK)), teacher.standard_normal((items, RANK))
    random = np.random.default_rng(seed)
    user, item = random.integers(0, users, samples), random.integers(0, items, samples)
    liked = (of_users[user] * of_items[item]).sum(axis=1, keepdims=True) > 0
    return {"user": user, "item": item, "targets": liked.astype(np.float32)}


@cache
def _corpus() -> NDArray[np.int64]:
    """All topics, by name, as ASCII codes; other characters are question marks."""
    joined = "\n".join(topics[name] for name in sorted(topics))
    return np.frombuffer(joined.encode("ascii", "replace"), dtype=np.uint8).astype(np.int64)


def _pieces(samples: int, seed: int, length: int) -> NDArray[np.int64]:
    """[samples, length]: pieces of the corpus that start anywhere."""
    _check("samples", samples, 1)
    corpus = _corpus()
    starts = np.random.default_rng(seed).integers(0, len(corpus) - length + 1, (samples, 1))
    return corpus[starts + np.arange(length)]


def _check(name: str, size: int, least: int) -> None:
    if not isinstance(cast("object", size), int | np.integer) or size < least:
        wanted = f"a whole number of {name}, at least {least}"
        raise InvalidOptionError(f"samples to train on: expected {wanted}, got {size!r}")

"""Default sizes for the open dimensions of model inputs: lists the dimensions and the values to try."""

from __future__ import annotations

import enum
import itertools
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from superopt.optimizer.check.reading import image_axes
from superopt.optimizer.cost.runtime.ports import Port

_VARIATIONS = 2
"""Number of additional sets of sizes, in which guessed dimensions differ from the first."""


class Kind(enum.Enum):
    """The quantity that a dimension counts."""

    BATCH = enum.auto()
    HEIGHT = enum.auto()
    WIDTH = enum.auto()
    LENGTH = enum.auto()
    PAST = enum.auto()
    SAMPLES = enum.auto()
    VOLUME = enum.auto()


@dataclass(frozen=True, slots=True)
class OpenDimension:
    """A dimension of unspecified size: its name, and the inputs and axes that have it. ``demanded`` are sizes
    required by weights or other axes, ``otherwise`` what it counts if the model runs at no usual sizes."""

    name: str
    places: tuple[tuple[str, int], ...]
    kind: Kind
    demanded: tuple[int, ...] = ()
    otherwise: Kind | None = None

    def __str__(self) -> str:
        places = ", ".join(f"{name} axis {axis}" for name, axis in self.places)
        return f"{self.name} ({places})"


_CHOICES: Mapping[Kind, tuple[int, ...]] = {
    Kind.BATCH: (1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 16),
    Kind.HEIGHT: (224, 48, 256, 32, 640, 64, 32, 416, 128, 96, 16, 8),
    Kind.WIDTH: (224, 192, 256, 128, 640, 64, 32, 416, 128, 96, 16, 8),
    Kind.LENGTH: (128, 64, 32, 256, 16, 77, 512, 8, 10, 100, 1, 4),
    Kind.PAST: (16, 16, 32, 8, 64, 77, 8, 4, 16, 1, 1, 4),
    Kind.SAMPLES: (16_000, 32_000, 512, 48_000, 8_000, 1_536, 160_000, 480_000, 1_024, 400, 256, 160),
    Kind.VOLUME: (16, 32, 64, 96, 48, 8, 112, 128, 4, 24, 20, 12),
}
"""Sizes to try for each kind, the usual one first, until the model runs."""

_VARIED: Mapping[Kind, tuple[int, ...]] = {
    Kind.BATCH: (2, 3),
    Kind.HEIGHT: (192, 256),
    Kind.WIDTH: (192, 320),
    Kind.LENGTH: (48, 33),
    Kind.PAST: (8, 3),
    Kind.SAMPLES: (8_000, 12_000),
    Kind.VOLUME: (32, 8),
}
"""Further sizes at which a model that runs at the first ones is checked."""

_TEXT_LINE = 96
"""An image of at most this height is assumed to be a line of text, four times as wide."""

_WORD = r"(^|[\W_])(%s)($|[\W_\d])"
_NAMES: Sequence[tuple[re.Pattern[str], Kind]] = tuple(
    (re.compile(pattern, re.IGNORECASE), kind)
    for pattern, kind in (
        (r"past|cache", Kind.PAST),
        (r"batch", Kind.BATCH),
        (r"height|" + _WORD % "h|rows", Kind.HEIGHT),
        (r"width|" + _WORD % "w|cols|columns", Kind.WIDTH),
        (r"samples|audio|wav|signal|pcm", Kind.SAMPLES),
        (r"seq|len|token|time|frame|word|char|step|text|phoneme|" + _WORD % "t|l|s", Kind.LENGTH),
        (r"node|edge|vertex|vertices|atom|residue|" + _WORD % "points?", Kind.LENGTH),
    )
)
_GENERATED = re.compile(r"[su]\d+")
"""Names that PyTorch generates for dimensions without one (``s6``); they say nothing."""

_FIRST = re.compile("n|b|bs", re.IGNORECASE)
"""Short names that mean a batch, but only on the first axis."""

_SOUND = re.compile(r"audio|wav|signal|pcm|speech|samples", re.IGNORECASE)
_SEQUENCES = 3
"""Most axes of an input whose first axis may be time."""

_RATE = re.compile(_WORD % "sr|sample_?rate|sampling_?rate", re.IGNORECASE)


def open_dimensions(
    ports: Sequence[Port], demanded: Mapping[tuple[str, int], int], states: Container[str] = ()
) -> tuple[OpenDimension, ...]:
    """The open dimensions of inputs, each once. ``demanded`` are sizes that weights require of an axis,
    ``states`` the inputs that are states of recurrent layers."""
    is_sound = any(_RATE.search(port.name) for port in ports)
    places: dict[str, list[tuple[Port, int]]] = {}
    for port in ports:
        for axis, size in enumerate(port.shape):
            if isinstance(size, str):
                places.setdefault(size, []).append((port, axis))
    found: list[OpenDimension] = []
    for name, at in places.items():
        is_state = _named_kind(name, at) is None and any(p.name in states and axis == 1 for p, axis in at)
        kind = Kind.BATCH if is_state else _kind(name, at, alone=len(ports) == 1, sounds=is_sound)
        asked = [demanded.get((port.name, axis)) for port, axis in at]
        if kind in (Kind.HEIGHT, Kind.WIDTH):
            asked += [_other_side(port, axis) for port, axis in at]
        where = tuple((port.name, axis) for port, axis in at)
        may_be_time = (
            kind is Kind.BATCH and _named_kind(name, at) is None and len(at[0][0].shape) <= _SEQUENCES
        )
        otherwise = Kind.LENGTH if may_be_time else None
        found.append(OpenDimension(name, where, kind, tuple(dict.fromkeys(filter(None, asked))), otherwise))
    return tuple(found)


def sizes_to_try(dimensions: Sequence[OpenDimension], given: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Sets of sizes for all dimensions, the usual ones first; ``given`` sizes are fixed."""
    seen: list[dict[str, int]] = []
    otherwise = [replace(each, kind=each.otherwise or each.kind) for each in dimensions]
    attempts = range(len(_CHOICES[Kind.BATCH]))
    for some, attempt, demands in itertools.product((dimensions, otherwise), attempts, (True, False)):
        sizes = {d.name: given.get(d.name) or _guess(d, attempt, demands=demands) for d in some}
        sizes = _related(sizes, given)
        if sizes not in seen:
            seen.append(sizes)
            yield sizes


def varied(
    dimensions: Sequence[OpenDimension], settled: Mapping[str, int], given: Mapping[str, int]
) -> Iterator[dict[str, int]]:
    """Yield alternative sets of sizes in which guessed dimensions differ from the settled ones."""
    kinds = {d.name: _settled_kind(d, settled[d.name]) for d in dimensions if d.name not in given}
    for changed in (kinds, {name: kind for name, kind in kinds.items() if kind is Kind.BATCH}):
        for variation in range(_VARIATIONS):
            others = {name: _VARIED[kind][variation] for name, kind in changed.items()}
            yield _related({d.name: others.get(d.name, settled[d.name]) for d in dimensions}, given)


def _settled_kind(dimension: OpenDimension, size: int) -> Kind:
    """What a dimension counts, given the size at which the model runs."""
    is_usual = size in _CHOICES[dimension.kind] or size in dimension.demanded
    return dimension.kind if is_usual else dimension.otherwise or dimension.kind


def example(sizes: Mapping[str, int]) -> str:
    """Return a command-line example for giving sizes."""
    return " ".join(
        f"--dim {name}={size}" if re.fullmatch(r"[\w.:/-]+", name) else f"--dim '{name}={size}'"
        for name, size in sizes.items()
    )


def _named_kind(name: str, places: Sequence[tuple[Port, int]]) -> Kind | None:
    """What the name says that the dimension counts; None if it says nothing, as a name that was made up."""
    if name.startswith(f"{places[0][0].name}.") or _GENERATED.fullmatch(name):
        return None
    if _FIRST.fullmatch(name) and any(axis == 0 for _, axis in places):
        return Kind.BATCH
    return next((kind for pattern, kind in _NAMES if pattern.search(name)), None)


def _kind(name: str, places: Sequence[tuple[Port, int]], *, alone: bool, sounds: bool) -> Kind:
    port, axis = places[0]
    rank = len(port.shape)
    found = _named_kind(name, places)
    if found is not None:
        return found
    image = image_axes(port)
    if image is not None and axis in image:
        return Kind.HEIGHT if axis == image[0] else Kind.WIDTH
    if axis == 0 and (rank > 1 or not alone):
        return Kind.BATCH
    is_float = port.dtype is not None and np.dtype(port.dtype).kind == "f"
    if is_float and rank <= 3 and (sounds or _SOUND.search(port.name)):
        return Kind.SAMPLES
    return Kind.VOLUME if rank == 5 and axis > 1 else Kind.LENGTH


def _guess(dimension: OpenDimension, attempt: int, *, demands: bool) -> int:
    if demands and dimension.demanded:
        return dimension.demanded[min(attempt, len(dimension.demanded) - 1)]
    return _CHOICES[dimension.kind][attempt]


def _other_side(port: Port, axis: int) -> int | None:
    """Return a usual width for a known height, or the reverse."""
    image = image_axes(port)
    if image is None or axis not in image:
        return None
    other = port.shape[image[1] if axis == image[0] else image[0]]
    if not isinstance(other, int):
        return None
    return 4 * other if axis == image[1] and other <= _TEXT_LINE else other


def _related(sizes: dict[str, int], given: Mapping[str, int]) -> dict[str, int]:
    """Sizes whose name is an expression of others: ``past + 1``, ``frames / 2``, and ``total_length`` beside
    ``past_length`` and ``length``."""
    for name in sizes:
        if name in given:
            continue
        kind = name.removeprefix("total_")
        text = f"past_{kind} + {kind}" if kind != name and f"past_{kind}" in sizes else name
        calculated = _calculated(text, sizes)
        if calculated is not None and calculated > 0:
            sizes[name] = calculated
    return sizes


def _calculated(text: str, sizes: Mapping[str, int]) -> int | None:
    """Return a sum, difference, product or quotient of sizes and numbers, evaluated from left to right; None
    otherwise."""
    parts = _OPERATION.split(text)
    numbers = [int(part) if part.isdigit() else sizes.get(part) for part in parts[::2]]
    if len(numbers) < 2 or any(number is None for number in numbers):
        return None
    first, *others = (number for number in numbers if number is not None)
    for operation, number in zip(parts[1::2], others, strict=True):
        match operation:
            case "+":
                first += number
            case " - ":
                first -= number
            case "*":
                first *= number
            case _ if number:
                first //= number
            case _:
                return None
    return first


_OPERATION = re.compile(r"\s*(\+|\*|//|/|\s-\s)\s*")

"""Shapes that operators want of their operands: proposals for a sampler, of which the meaning is the judge.

A *wish* is a shape with None for sizes that may be any, or None where nothing is known, not even the rank.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.verifier.brute.basics import Attributes, IllTyped, Shape

Wish = tuple[int | None, ...] | None
MOST_ROWS = 24


@dataclass(frozen=True)
class Place:
    """One operand of an operator: its attributes, what is known of its operands and of its result."""

    attributes: Attributes
    index: int
    known: Sequence[Shape | None]
    wish: Wish
    rank: int
    grouped: float
    random: random.Random

    def groups(self, number: int) -> int:
        """A number of groups that divides the number given: 1 unless this attempt is about groups."""
        if self.random.random() > self.grouped:
            return 1
        return self.random.choice([divisor for divisor in range(1, number + 1) if number % divisor == 0])

    def any_of(self, least: int, most: int = 9) -> Wish:
        """A wish that says no more than a rank."""
        return (None,) * min(max(self.rank, least), most)

    @property
    def axis(self) -> int:
        """The attribute of that name."""
        return self.attributes.get("axis", -1)

    @property
    def other(self) -> Shape | None:
        """What is known of another operand."""
        return next(
            (shape for n, shape in enumerate(self.known) if n != self.index and shape is not None), None
        )


def placed(wish: Sequence[int | None], axis: int, size: int | None) -> Wish:
    """The wish with another size along an axis."""
    if not -len(wish) <= axis < len(wish):
        raise IllTyped
    changed = list(wish)
    changed[axis] = size
    return tuple(changed)


def operand(operator: str, place: Place) -> Wish:
    """What the operator wants of one operand."""
    return _WANTED.get(operator, _like_result)(place)


def _like_result(place: Place) -> Wish:
    return place.wish


def _like_other(place: Place) -> Wish:
    return place.other or place.wish


def _scaled(place: Place) -> Wish:
    return () if place.index else place.wish


def _vectors(place: Place) -> Wish:
    return place.other or place.wish or (None,)


def _channelwise(place: Place) -> Wish:
    if place.index == 0:
        vector = next((shape for shape in place.known[1:] if shape), None)
        wish = place.wish or place.any_of(1)
        return placed(wish or (), place.axis, vector[0]) if vector else wish
    data = place.known[0]
    if data is None or not -len(data) <= place.axis < len(data):
        return (None,)
    return (data[place.axis],)


def _rows(place: Place) -> Wish:
    if place.index == 0:
        return place.wish or place.any_of(1)
    return (None,) if not place.known[0] else place.known[0][-1:]


def _reduced(place: Place) -> Wish:
    return place.any_of(1) if place.wish is None else placed(place.wish, place.axis, None)


def _transposed(place: Place) -> Wish:
    perm = place.attributes.get("perm", ())
    if place.wish is None:
        return (None,) * len(perm) if perm else place.any_of(2)
    if not perm:
        return (*place.wish[:-2], *place.wish[-1:], *place.wish[-2:-1])
    if len(perm) != len(place.wish):
        raise IllTyped
    found: list[int | None] = [None] * len(perm)
    for size, axis in zip(place.wish, perm, strict=True):
        if axis >= len(perm):
            raise IllTyped
        found[axis] = size
    return tuple(found)


def _concatenated(place: Place) -> Wish:
    if place.wish is None:
        other = place.other
        return place.any_of(1) if other is None else placed(other, place.axis, None)
    if not -len(place.wish) <= place.axis < len(place.wish):
        raise IllTyped
    total = place.wish[place.axis]
    if total is None:
        other = place.other
        return placed(other, place.axis, None) if other is not None else place.wish
    rest = total - sum(shape[place.axis] for shape in place.known if shape)
    waiting = sum(shape is None for shape in place.known)
    if rest < waiting:
        raise IllTyped
    if waiting == 1:
        return placed(place.wish, place.axis, rest)
    alike = rest % waiting == 0 and place.random.random() < 0.4
    return placed(
        place.wish, place.axis, rest // waiting if alike else place.random.randint(1, rest - waiting + 1)
    )


def _halved(place: Place) -> Wish:
    if place.wish is None:
        return place.any_of(1)
    size = place.wish[place.axis] if -len(place.wish) <= place.axis < len(place.wish) else None
    return placed(
        place.wish, place.axis, None if size is None else size + place.random.choice((1, 2, 3, size))
    )


def _multiplied(place: Place) -> Wish:
    wish, other = place.wish, place.other
    if wish is None:
        batch = place.any_of(2) or ()
        batch = batch[:-2] if place.random.random() < 0.6 else ()
        if other is not None and len(other) > 2:
            batch = other[:-2] if batch else ()
        rows, columns = None, None
    else:
        if len(wish) < 2:
            raise IllTyped
        batch, rows, columns = wish[:-2], wish[-2], wish[-1]
        if (other is None or len(other) > 2) and place.random.random() < 0.4:
            batch = ()
    if place.index == 0:
        return (*batch, rows, other[-2] if other and len(other) > 1 else None)
    return (*batch, other[-1] if other and len(other) > 1 else None, columns)


def _repeated(place: Place) -> Wish:
    if place.wish is None:
        return place.any_of(0)
    kept = place.wish[place.random.randint(0, len(place.wish)) if place.random.random() < 0.4 else 0 :]
    return tuple(1 if place.random.random() < 0.5 else size for size in kept)


def rows_before(
    after: int | None,
    kernel: int,
    stride: int,
    dilation: int,
    padding: object,
    axis: int,
    chooser: random.Random,
) -> int:
    """A size of which windows make that many positions; raises IllTyped if there is none."""
    fitting = [
        size
        for size in range(1, MOST_ROWS)
        if (count := positions(size, kernel, stride, dilation, padding, axis)) > 0
        and count == (after or count)
    ]
    if not fitting:
        raise IllTyped
    return chooser.choice(fitting[:5] if chooser.random() < 0.8 else fitting)


def positions(size: int, kernel: int, stride: int, dilation: int, padding: object, axis: int) -> int:
    """The number of positions of a window; 0 or less where it does not fit."""
    extent = dilation * (kernel - 1) + 1
    if padding in ("same_upper", "same_lower"):
        return -(-size // stride)
    if padding == "same":
        if extent % 2 == 0:
            return 0
        size += extent - 1
    elif isinstance(padding, tuple):
        size += padding[axis] + padding[axis + 2]
    return (size - extent) // stride + 1 if size >= extent else 0


def _image_before(place: Place, kernel: Sequence[int | None]) -> tuple[int, int]:
    attributes = place.attributes
    strides, dilations = attributes.get("stride", (1, 1)), attributes.get("dilation", (1, 1))
    padding = attributes.get("padding", "valid")
    wish = place.wish or (None,) * 4
    if len(wish) != 4:
        raise IllTyped
    rows = [
        rows_before(
            wish[axis + 2],
            kernel[axis] or place.random.choice((1, 1, 2, 3)),
            strides[axis],
            dilations[axis],
            padding,
            axis,
            place.random,
        )
        for axis in range(2)
    ]
    return rows[0], rows[1]


def _pooled(place: Place) -> Wish:
    wish = place.wish or (None,) * 4
    return (*wish[:2], *_image_before(place, place.attributes["kernel"]))


def _convolved(place: Place) -> Wish:
    wish = place.wish or (None,) * 4
    if len(wish) != 4:
        raise IllTyped
    data, weight = place.known
    if place.index == 0:
        channels = None
        if weight is not None and len(weight) == 4:
            channels = weight[1] * place.groups(weight[0])
        kernel = weight[2:] if weight is not None else (None, None)
        return (wish[0], channels, *_image_before(place, kernel))
    if data is None or len(data) != 4:
        return (wish[1], None, None, None)
    groups = place.groups(data[1])
    if wish[1] is not None and wish[1] % groups:
        groups = 1
    outputs = (
        wish[1] if wish[1] is not None else groups * place.random.choice((1, 1, 2, 3, 6, data[1], data[1]))
    )
    return (outputs, data[1] // groups, *(_kernel_between(place, data, wish, axis) for axis in range(2)))


def _kernel_between(place: Place, data: Shape, wish: Sequence[int | None], axis: int) -> int:
    attributes = place.attributes
    stride, dilation = (attributes.get(name, (1, 1))[axis] for name in ("stride", "dilation"))
    padding = attributes.get("padding", "valid")
    fitting = [
        kernel
        for kernel in (1, 2, 3, 4, 5)
        if (count := positions(data[axis + 2], kernel, stride, dilation, padding, axis)) > 0
        and count == (wish[axis + 2] or count)
    ]
    if not fitting:
        raise IllTyped
    return place.random.choice(fitting)


def _enlarged(place: Place) -> Wish:
    wish = place.wish or (None,) * 4
    sizes = [place.random.choice(range(2 - size % 2, size + 1, 2)) for size in place.attributes["kernel"]]
    return (*wish[:2], *sizes)


def _larger(place: Place) -> Wish:
    wish = place.wish or (None,) * 4
    if len(wish) != 4:
        raise IllTyped
    sizes = [size and size // step for size, step in zip(wish[2:], place.attributes["stride"], strict=True)]
    if 0 in sizes:
        raise IllTyped
    return (*wish[:2], *sizes)


def _image(place: Place) -> Wish:
    return place.wish or (None,) * 4


def _global(place: Place) -> Wish:
    return (*(place.wish or (None, None))[:2], None, None)


def _response(place: Place) -> Wish:
    weight, vector = place.known
    if place.index == 0:
        outputs = None if not place.wish else place.wish[0]
        if vector is None:
            return (outputs, None, None, None)
        groups = place.groups(vector[0])
        return (
            outputs if outputs is None or outputs % groups == 0 else None,
            vector[0] // groups,
            None,
            None,
        )
    return (None,) if weight is None or len(weight) != 4 else (weight[1] * place.groups(weight[0]),)


_WANTED: dict[str, Callable[[Place], Wish]] = {
    **dict.fromkeys(("add", "sub", "mul", "div"), _like_other),
    **dict.fromkeys(("channel_scale", "bias_add", "affine"), _channelwise),
    **dict.fromkeys(("batchnorm_scale", "batchnorm_shift"), _vectors),
    **dict.fromkeys(("rms_normalization", "layer_normalization"), _rows),
    **dict.fromkeys(("reduce_sum", "reduce_mean", "reduce_max"), _reduced),
    **dict.fromkeys(("split0", "split1"), _halved),
    **dict.fromkeys(("maxpool", "avgpool"), _pooled),
    **dict.fromkeys(("upsample_nearest", "upsample_linear"), _larger),
    "softmax": lambda place: place.wish or place.any_of(1),
    "scale": _scaled,
    "transpose": _transposed,
    "concat": _concatenated,
    "matmul": _multiplied,
    "broadcast": _repeated,
    "reshape": lambda _: None,
    "conv": _convolved,
    "enlarge": _enlarged,
    "lrn": _image,
    "global_avgpool": _global,
    "kernel_response": _response,
}

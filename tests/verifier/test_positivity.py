"""Which sizes are positive whatever the symbols are, and what symbols leave undecided."""

from __future__ import annotations

import pytest

from superopt.ir.dimensions import Dimension, symbol
from superopt.ops.base import Operator
from superopt.ops.elementwise.activation import Relu
from superopt.ops.images.convolution import Conv, Enlarge
from superopt.verifier.certificates.positivity import PositiveSizes
from tests.verifier.shapes import shapes


@pytest.mark.parametrize(
    ("size", "positive"),
    [
        (1, True),
        (0, False),
        (-1, False),
        ("n", True),
        ("free", False),
        ("n+n", True),
        ("n*m", True),
        ("n*free", False),
        ("h-2", True),
        ("h-3", False),
        ("h-2+n", True),
        ("h-1", True),
        ("3*h-6", True),
        ("n+m-h", False),
        ("n-m", False),
        ("g*c", True),
        ("c", False),
        ("g*c*n", True),
        ("n//2", False),
        ("m//2", True),
        ("m//2+1", True),
        ("n-1", False),
        ("1-n", False),
        ("m-1", True),
        ("m-2", False),
        ("w-2", True),
        ("w-3", False),
    ],
)
def test_positive_sizes(size: int | str, positive: object) -> None:
    """Known are n, m, h, h - 2, g * c, floor(m / 2) and what a window of 3 at stride 2 leaves of w."""
    n, m, h, g, c, w, free = map(symbol, ("n", "m", "h", "g", "c", "w", "free"))
    written: dict[str, Dimension] = {
        "n": n,
        "free": free,
        "n+n": n + n,
        "n*m": n * m,
        "n*free": n * free,
        "h-2": h - 2,
        "h-3": h - 3,
        "h-2+n": h - 2 + n,
        "h-1": h - 1,
        "3*h-6": 3 * h - 6,
        "n+m-h": n + m - h,
        "n-m": n - m,
        "g*c": g * c,
        "c": c,
        "g*c*n": g * c * n,
        "n//2": n // 2,
        "m//2": m // 2,
        "m//2+1": m // 2 + 1,
        "n-1": n - 1,
        "1-n": 1 - n,
        "m-1": m - 1,
        "m-2": m - 2,
        "w-2": w - 2,
        "w-3": w - 3,
    }
    known = PositiveSizes([n, m, h, h - 2, g * c, m // 2, (w - 3) // 2 + 1, 7])
    assert known.is_positive(written[size] if isinstance(size, str) else size) is positive


@pytest.mark.parametrize(
    ("operator", "shapes_of_inputs", "open_to_sizes"),
    [
        (Conv(padding="same"), {"x": ("n", "c", "h", "w"), "y": ("o", "c", 3, 3)}, False),
        (Conv(padding="same"), {"x": ("n", "c", "h", "w"), "y": ("o", "c", "k", 3)}, True),
        (Conv(), {"x": ("n", 4, "h", "w"), "y": ("o", 2, 1, 1)}, True),
        (Conv(), {"x": ("n", 4, "h", "w"), "y": (6, 2, 1, 1)}, False),
        (Enlarge((5, 5)), {"y": ("o", "c", 3, 3)}, False),
        (Enlarge((5, 5)), {"y": ("o", "c", "k", "k")}, True),
        (Relu(), {"y": ("k",)}, False),
    ],
)
def test_what_symbols_leave_undecided(
    operator: Operator, shapes_of_inputs: dict[str, tuple[int | str, ...]], open_to_sizes: object
) -> None:
    """``infer`` accepts all of these; three outputs in two groups, or an even kernel, it would not."""
    types = tuple(shapes(**shapes_of_inputs).values())
    assert operator.infer(*types)
    assert bool(operator.unseen(*types)) is open_to_sizes

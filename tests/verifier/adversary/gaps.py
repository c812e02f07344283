"""Fillings for the gaps of templates, drawn at random."""

from __future__ import annotations

import random
import re

CHANNELS = (2, 3, 4, 5, 6, 7, 9, 10, 15, 21, 25, 35)
PARTIAL_TERMS = (
    "sqrt(x)",
    "div(x, y)",
    "power[exponent=1/2](x)",
    "power[exponent=-1](x)",
    "sqrt(sub(x, y))",
    "div(y, mul(x, x))",
    "power[exponent=-1/2](x)",
)
RARELY_UNDEFINED = (
    "div(x, sub(x, full[value=1234567/1000]()))",
    "sqrt(add(x, full[value=1000000]()))",
    "power[exponent=-1](sub(x, full[value=4321]()))",
    "div(x, sub(mul(x, x), full[value=10201]()))",
    "sqrt(sub(full[value=12345](), mul(x, x)))",
    "power[exponent=1/3](sub(x, full[value=-98765]()))",
    "div(x, add(mul(x, x), full[value=1]()))",
    "sqrt(x)",
    "div(x, x)",
    "sqrt(relu(x))",
    "div(x, exp(x))",
)
_GAP = re.compile(r"\{(\w+)\}")


def filled(template: str, chooser: random.Random) -> str:
    """The template with its gaps filled; a gap of one name has one filling."""
    rank = chooser.choice((1, 2, 3, 4, 5, 6, 6, 7, 7, 8, 8, 9, 9))
    place = chooser.randrange(rank)
    degrees = chooser.choice(
        ((2, 3, 6), (2, 2, 4), (2, 4, 8), (3, 2, 6), (2, 3, 5), (2, 2, 2), (4, 2, 6), (3, 3, 6))
    )
    strides = chooser.choice(((2, 2, 4), (2, 3, 6), (1, 2, 2), (2, 2, 2), (3, 2, 5), (2, 2, 3)))
    kernels = chooser.choice(((2, 2, 3), (3, 3, 5), (1, 3, 3), (3, 1, 3), (2, 2, 4), (2, 3, 6), (2, 3, 4)))
    n = chooser.randrange(-3, 3)
    values: dict[str, object] = {
        "rank": rank,
        "axis": place,
        "back": place - rank,
        "near": chooser.randrange(-4, 4),
        "near2": chooser.randrange(-4, 4),
        "h": chooser.randrange(2),
        "r": chooser.choice(("reduce_sum", "reduce_mean", "reduce_max")),
        "q": chooser.choice(("reduce_sum", "reduce_mean", "reduce_max")),
        "perm3": _permutation(3, chooser),
        "perm4": _permutation(4, chooser),
        "G": chooser.choice(CHANNELS),
        "C": chooser.choice(CHANNELS),
        "K": chooser.choice((1, 2, 3, 3, 4, 5, 5, 7, 9)),
        "P": chooser.choice(PARTIAL_TERMS),
        "R": chooser.choice(RARELY_UNDEFINED),
        "Q": chooser.choice(("sqrt(x)", "div(x, x)", "power[exponent=-1](x)")),
        "f": chooser.choice(("relu", "sigmoid", "tanh", "exp", "sqrt")),
        "one": chooser.choice((1, 1, 1, 2)),
        "one2": chooser.choice((1, 1, 2)),
        "two": chooser.choice((2, 2, 3, 1, 4)),
        "p": chooser.choice(("valid", "same", "same_upper", "same_lower", "(1, 1, 1, 1)")),
        "v": chooser.choice((0, 1, 2, -1)),
        "n": n,
        "m": chooser.choice(
            (n, n, chooser.randrange(-3, 3), n - 2 if n >= 0 else n + 2, n - 3 if n >= 0 else n + 3)
        ),
    }
    values |= zip(("d", "d2", "d3"), degrees, strict=True)
    values |= zip(("s", "s2", "s3"), strides, strict=True)
    values |= zip(("k", "k2", "k3"), kernels, strict=True)
    return _GAP.sub(lambda gap: str(values[gap.group(1)]), template)


def _permutation(rank: int, chooser: random.Random) -> str:
    axes = list(range(rank))
    chooser.shuffle(axes)
    return f"({', '.join(map(str, axes))})"

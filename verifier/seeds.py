"""Seeds of random choices: derived from the checked equation and a number, or unpredictable."""

from __future__ import annotations

import hashlib
import os

from superopt.equations import format_equation
from superopt.ir.terms import Equation


def seed_of(equation: Equation, stream: int, seed: int = 0) -> int:
    """Return a seed for one stream of random choices about one equation.

    With ``seed`` 0 it depends only on the arguments, so results are reproducible, but the author of an
    equation can predict them.
    """
    salt = f"{seed}:" if seed else ""
    digest = hashlib.sha256(f"{salt}{stream} {format_equation(equation)}".encode()).digest()
    return int.from_bytes(digest[:8], "big")


def chosen_seed(seed: int | None) -> int:
    """Return the given seed, or for None a nonzero one from the operating system."""
    return 1 + int.from_bytes(os.urandom(8), "big") if seed is None else seed

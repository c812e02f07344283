"""Seeds that depend on what is checked and on nothing else."""

from __future__ import annotations

import hashlib

from superopt.equations import format_equation
from superopt.ir.terms import Equation


def seed_of(equation: Equation, stream: int) -> int:
    """A seed for one stream of random choices about one equation."""
    digest = hashlib.sha256(f"{stream} {format_equation(equation)}".encode()).digest()
    return int.from_bytes(digest[:8], "big")

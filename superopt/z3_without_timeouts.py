"""Z3 for symbolic validation, with a solver that ends by counted resources alone and never by a clock.

``Solver.set`` drops ``timeout``, so an answer is the same on every machine and under every load. The import
is the only change in ``superopt.verifier.refute.validation``, because a change of its definitions would make
every stored proof stale.
"""

# pyright: reportUnknownMemberType=false, reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import z3
from z3 import And, ArithRef, Context, Or, RatNumRef, RealVal, Z3Exception, sat, simplify, unsat


class Solver(z3.Solver):
    """A Z3 solver without a time limit."""

    def set(self, *args: object, **keys: object) -> None:
        """Set parameters other than ``timeout``."""
        super().set(*args, **{name: value for name, value in keys.items() if name != "timeout"})


__all__ = [
    "And",
    "ArithRef",
    "Context",
    "Or",
    "RatNumRef",
    "RealVal",
    "Solver",
    "Z3Exception",
    "sat",
    "simplify",
    "unsat",
]

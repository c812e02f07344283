"""A judgement that does not end while somebody holds it up, for tests of what is stored meanwhile."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from superopt.axioms import AxiomSet
from superopt.equations import format_equation
from superopt.ir.terms import Equation
from superopt.verifier.conditions.inference import Judgement, verify_or_condition

GATE, HELD_UP = "TESTS_GATE", "TESTS_HELD_UP"
"""The variables that name a FIFO, and the equation whose judgement waits for a writer of it."""


def judge(candidates: Sequence[Equation], axioms: AxiomSet) -> Judgement:
    """``verify_or_condition``, which waits for one equation."""
    if format_equation(candidates[-1]) == os.environ[HELD_UP]:
        Path(os.environ[GATE]).read_bytes()
    return verify_or_condition(candidates, axioms)

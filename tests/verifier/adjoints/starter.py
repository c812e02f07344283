"""The statements of ``starter.txt``, which the tests of validation share."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from superopt.axioms import AxiomSet, axioms_from_text


@cache
def starter() -> AxiomSet:
    """The statements, without equations."""
    return axioms_from_text({"starter": Path(__file__).with_name("starter.txt").read_text("utf-8")})

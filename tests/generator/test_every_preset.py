"""Every preset that comes with the generator runs to its end, and what it keeps are rules."""

from __future__ import annotations

import pytest

from superopt.equations import format_equation, parse_equation, rule_id
from superopt.generator import generate, load_preset, preset_names
from superopt.rewriting import substitutions_of
from tests.generator.generations import generation

WHOLE = frozenset(
    (
        "affine",
        "branches",
        "centred",
        "exponentials",
        "gates",
        "pointwise",
        "powers",
        "softmaxes",
        "transposed",
        "turned",
        "vision",
        "windows",
    )
)
"""Presets that take a second at their own size, or find nothing below it; the others run at two operators."""


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_ends_with_candidates_that_are_rules(name: str) -> None:
    preset = load_preset(name)
    made = generate(preset, max_ops=preset.max_ops if name in WHOLE else 2)
    assert made.kept == len(made.candidates) > 0
    for candidate in made.candidates:
        equation = candidate.generalizations[-1]
        assert rule_id(parse_equation(format_equation(equation))) == rule_id(equation)
        assert substitutions_of(equation, rule_id(equation))


def test_equations_between_constants_alone_are_looked_at_like_others() -> None:
    made = generation("taso", 2, "matmul", "transpose")
    closed = {candidate.text for candidate in made.candidates if not candidate.shapes}
    assert "transpose(matmul(ones(), ones())) => matmul(ones(), ones())" in closed

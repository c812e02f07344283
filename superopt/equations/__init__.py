"""Equation text: parsing, printing, and the canonical form that gives a rule its id."""

from superopt.equations.abbreviation import abbreviated
from superopt.equations.adjoints import (
    Adjoint,
    adjoint_of,
    equation_of_adjoint,
    format_adjoint,
    parse_adjoint,
    parse_statement,
)
from superopt.equations.canonical import canonical, rule_id, spelled, text_id
from superopt.equations.drawing import drawing
from superopt.equations.parser import parse_equation, parse_equations, parse_number, parse_term
from superopt.equations.picture import picture
from superopt.equations.printer import format_attribute, format_condition, format_equation, format_term
from superopt.equations.report_regions import equation_of_region

__all__ = [
    "Adjoint",
    "abbreviated",
    "adjoint_of",
    "canonical",
    "drawing",
    "equation_of_adjoint",
    "equation_of_region",
    "format_adjoint",
    "format_attribute",
    "format_condition",
    "format_equation",
    "format_term",
    "parse_adjoint",
    "parse_equation",
    "parse_equations",
    "parse_number",
    "parse_statement",
    "parse_term",
    "picture",
    "rule_id",
    "spelled",
    "text_id",
]

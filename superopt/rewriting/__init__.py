"""Substitutions on graphs: typing, matching and application, as pure functions of immutable graphs."""

from superopt.rewriting.application import Obstacle, Rewrite, apply_match, obstacle
from superopt.rewriting.binding import Binding, Bundle
from superopt.rewriting.conditions import as_declared, holds
from superopt.rewriting.evaluation import evaluate_graph, evaluate_terms
from superopt.rewriting.matching import Match, Window, find_matches
from superopt.rewriting.substitution import Substitution, substitutions_of, why_unusable
from superopt.rewriting.typing import Typing, infer_terms, type_equation

__all__ = [
    "Binding",
    "Bundle",
    "Match",
    "Obstacle",
    "Rewrite",
    "Substitution",
    "Typing",
    "Window",
    "apply_match",
    "as_declared",
    "evaluate_graph",
    "evaluate_terms",
    "find_matches",
    "holds",
    "infer_terms",
    "obstacle",
    "substitutions_of",
    "type_equation",
    "why_unusable",
]

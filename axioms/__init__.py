"""The axioms: handwritten equations about operators, validated by the verifier, one file per family."""

from superopt.axioms.loader import (
    AxiomSet,
    axioms_from_text,
    cuts,
    holds_for_integers,
    load_axioms,
    require_reasons,
    texts_of_families,
)

__all__ = [
    "AxiomSet",
    "axioms_from_text",
    "cuts",
    "holds_for_integers",
    "load_axioms",
    "require_reasons",
    "texts_of_families",
]

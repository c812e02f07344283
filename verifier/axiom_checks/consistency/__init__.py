"""Consistency of the axioms: search for false consequences of several axioms.

True axioms have a model, the tensors, so typed steps from true axioms derive nothing false. Two things can
fail: an axiom is false, or an untyped proof uses a step that no typing allows (``split0`` of a concat that is
written in another way). Both are searched for, and every falsehood is reported with its chain.
"""

from superopt.verifier.axiom_checks.consistency.checking import Consistency, check_consistency
from superopt.verifier.axiom_checks.consistency.falsehoods import Falsehood
from superopt.verifier.axiom_checks.consistency.interpretation import Kind
from superopt.verifier.axiom_checks.consistency.search import Depth, Surroundings, search_around

__all__ = [
    "Consistency",
    "Depth",
    "Falsehood",
    "Kind",
    "Surroundings",
    "check_consistency",
    "search_around",
]

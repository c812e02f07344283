"""Consistency of the axioms: what two of them say together must not be false.

True axioms have a model, the tensors, so typed steps from true axioms derive nothing false. What can go
wrong: an axiom is false; or a proof that forgets types goes where tensors do not (``split0`` of a concat that
is written in another way). Both are searched for, and every falsehood comes with its chain.
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

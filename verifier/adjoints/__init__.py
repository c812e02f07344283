"""Validation of adjoint statements by dual numbers.

- ``dual``: values with derivatives along one direction, over any number domain;
- ``samples``: random inputs in the prime field and over floats;
- ``applications``: typed applications of the operator;
- ``pairing``: both sides of the identity that defines an adjoint, at one typed instance;
- ``symbolic``: the same for all real inputs of small shapes;
- ``validation``: all instances up to a bound, and random ones of larger ranks;
- ``coverage``: operands of operators for which there is no statement.
"""

from superopt.verifier.adjoints.applications import QUICK, THOROUGH, AdjointEffort
from superopt.verifier.adjoints.coverage import MissingAdjoint, missing_adjoints, why_no_adjoint
from superopt.verifier.adjoints.dual import Dual, DualDomain
from superopt.verifier.adjoints.validation import AdjointValidation, validate_adjoint, validate_adjoints

__all__ = [
    "QUICK",
    "THOROUGH",
    "AdjointEffort",
    "AdjointValidation",
    "Dual",
    "DualDomain",
    "MissingAdjoint",
    "missing_adjoints",
    "validate_adjoint",
    "validate_adjoints",
    "why_no_adjoint",
]

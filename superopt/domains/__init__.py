"""Number domains: one interface over floats, rationals, partial reals, prime fields and symbolic reals."""

from superopt.domains.base import Array, Domain
from superopt.domains.floats import FloatDomain
from superopt.domains.objects import ExactDomain
from superopt.domains.partial import PartialArray, PartialDomain
from superopt.domains.prime_field import FieldArray, PrimeFieldDomain

__all__ = [
    "Array",
    "Domain",
    "ExactDomain",
    "FieldArray",
    "FloatDomain",
    "PartialArray",
    "PartialDomain",
    "PrimeFieldDomain",
]

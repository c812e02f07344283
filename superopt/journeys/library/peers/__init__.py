"""Rule files of other optimizers: parsing, translation to equations, coverage by the library."""

from superopt.journeys.library.peers.files import PeerFormat, format_of, read_rules
from superopt.journeys.library.peers.reading import Claim, Inexpressible, Malformed, PeerRule, why_none

__all__ = [
    "Claim",
    "Inexpressible",
    "Malformed",
    "PeerFormat",
    "PeerRule",
    "format_of",
    "read_rules",
    "why_none",
]

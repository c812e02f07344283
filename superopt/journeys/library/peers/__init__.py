"""Rule files of other optimizers: read into equations, or said to be malformed and why."""

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

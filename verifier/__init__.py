"""Verification of candidate equations: refutation by evaluation, proof from axioms, symbolic validation."""

from importlib import import_module
from typing import TYPE_CHECKING

from superopt.verifier.hashes import ContentHashes, content_hashes
from superopt.verifier.verdict import Status, Verdict

if TYPE_CHECKING:
    from superopt.verifier.goal import Options
    from superopt.verifier.verification import verify, verify_many, verify_most_general

__all__ = [
    "ContentHashes",
    "Options",
    "Status",
    "Verdict",
    "content_hashes",
    "verify",
    "verify_many",
    "verify_most_general",
]

_AT_FIRST_USE = ("Options", "verify", "verify_many", "verify_most_general")
"""What imports the provers; applying proved rules needs none of it."""


def __getattr__(name: str) -> object:
    """Loads what is not loaded at once."""
    if name in _AT_FIRST_USE:
        return getattr(import_module("superopt.verifier.verification"), name)
    raise AttributeError(f"module 'superopt.verifier' has no attribute {name!r}")

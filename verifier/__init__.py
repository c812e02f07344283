"""Verification of candidate equations: refutation by evaluation, proof from axioms, symbolic validation."""

from superopt.verifier.hashes import ContentHashes, content_hashes
from superopt.verifier.verify import Options, Status, Verdict, verify, verify_many, verify_most_general

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

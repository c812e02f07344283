"""Canonicalisation: simplifications that never hurt, applied to a graph before the search."""

from superopt.optimizer.canonical.canonicalise import Canonical, CanonicalStep, canonicalise

__all__ = ["Canonical", "CanonicalStep", "canonicalise"]

"""Canonicalisation: what only ever helps is done to a graph before it is searched."""

from superopt.optimizer.canonical.canonicalise import Canonical, CanonicalStep, canonicalise

__all__ = ["Canonical", "CanonicalStep", "canonicalise"]

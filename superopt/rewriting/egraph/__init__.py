"""Equality saturation with egglog: from typed terms to classes of equal terms."""

from superopt.rewriting.egraph.saturation import Outcome, Rules, Saturation, SaturationLimits, World

__all__ = ["Outcome", "Rules", "Saturation", "SaturationLimits", "World"]

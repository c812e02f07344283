"""Equality saturation with egglog: typed terms in, classes of equal terms out."""

from superopt.rewriting.egraph.saturation import Outcome, Rules, Saturation, SaturationLimits, World

__all__ = ["Outcome", "Rules", "Saturation", "SaturationLimits", "World"]

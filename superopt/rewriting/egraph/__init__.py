"""Equality saturation with egglog: typed terms in, classes of equal terms out."""

from superopt.rewriting.egraph.saturation import Limits, Outcome, Rules, Saturation, World

__all__ = ["Limits", "Outcome", "Rules", "Saturation", "World"]

"""Fusion model: the groups of nodes that the runtime executes as one kernel; the unit of pricing."""

from superopt.optimizer.fusion.gates import TRANSPARENT, FreeNodes
from superopt.optimizer.fusion.groups import group_of, is_free, partition

__all__ = ["TRANSPARENT", "FreeNodes", "group_of", "is_free", "partition"]

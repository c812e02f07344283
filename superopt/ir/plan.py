"""Plan: everything about how a graph is executed that is not part of what it computes.

A plan lies beside a graph and is keyed by node id. It says which nodes the runtime executes as one kernel and
in which layout tensors are kept; further dimensions (degrees, placement, synchronisation) join it here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from superopt.ir.graph import Graph, NodeId


@dataclass(frozen=True, slots=True)
class FusionGroup:
    """Nodes that the runtime executes as one kernel; ``head`` does the main work, the others follow it."""

    head: NodeId
    members: tuple[NodeId, ...]


def _no_groups() -> Mapping[NodeId, FusionGroup]:
    return MappingProxyType({})


@dataclass(frozen=True)
class Plan:
    """Execution choices for a graph. ``fusion`` maps the head of every group of two or more to its group."""

    fusion: Mapping[NodeId, FusionGroup] = field(default_factory=_no_groups)

    def restricted_to(self, graph: Graph) -> Plan:
        """The plan without what speaks of nodes that the graph does not have."""
        return Plan(
            MappingProxyType(
                {
                    head: group
                    for head, group in self.fusion.items()
                    if all(node in graph.nodes for node in group.members)
                }
            )
        )

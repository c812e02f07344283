"""Print what was done to the bodies of If, Loop and Scan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from superopt.cli.output import Output, several
from superopt.journeys.bodies.inspection import InspectedBody
from superopt.optimizer.pipeline.bodies import BodySummary


def bodies_in_brief(bodies: Sequence[BodySummary]) -> str:
    """The number of bodies, of their nodes, and of those that were rewritten."""
    before, after = sum(one.nodes_before for one in bodies), sum(one.nodes_after for one in bodies)
    rewritten = sum(one.returned == "optimized" for one in bodies)
    return (
        f"{len(bodies)} with {several(before, 'node')}: {rewritten} optimised, {several(after, 'node')} now"
    )


def print_bodies(bodies: Sequence[BodySummary], output: Output) -> None:
    """Prints a table of the bodies for which something was tried, with the outcome; equal ones once."""
    tried = [one for one in bodies if one.same_as is None and one.report is not None]
    if not tried:
        return
    output.line()
    output.table(
        ("body", "nodes", "returned", "why"),
        [(one.path, f"{one.nodes_before} -> {one.nodes_after}", one.returned, one.why) for one in tried],
    )


def print_inspected(bodies: Sequence[InspectedBody], output: Output) -> None:
    """Prints a table of the bodies of a model; equal ones once."""
    if not bodies:
        return
    nodes = sum(one.nodes for one in bodies)
    output.line(f"\nBodies, optimised as models of their own: {len(bodies)} with {several(nodes, 'node')}")
    equal = Counter(one.same_as for one in bodies)
    output.table(
        ("body", "nodes", "opaque", "equal ones", "not optimised because"),
        [(one.path, one.nodes, one.opaque, equal[one.path], one.why) for one in bodies if not one.same_as],
    )

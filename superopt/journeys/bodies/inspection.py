"""Describe the bodies of If, Loop and Scan in a model."""

from __future__ import annotations

from dataclasses import dataclass

from superopt.onnx_io import SourceModel, lift
from superopt.onnx_io.bodies.rewriting import Body, BodyRewriting, Refused
from superopt.onnx_io.bodies.states import with_simple_control_flow
from superopt.optimizer.pipeline.runnable import loads_lowered


@dataclass(frozen=True, slots=True)
class InspectedBody:
    """A body: its nodes without those nested deeper, how many of them are opaque, the path of an equal body
    before it, and why it is not optimised, if so."""

    path: str
    nodes: int
    opaque: int = 0
    same_as: str | None = None
    why: str = ""


def inspected_bodies(source: SourceModel) -> tuple[InspectedBody, ...]:
    """All bodies of a model; those within equal bodies once."""
    found: dict[str, InspectedBody] = {}

    def visit(body: Body) -> None:
        prefix = f"{body.path}/"
        inner = with_simple_control_flow(body.source, loads_lowered, prefix=prefix)
        rewriting.enter(inner, prefix)
        found[body.path] = InspectedBody(body.path, len(body.graph.node), len(lift(inner).opaque))

    def repeat(path: str, first: str) -> None:
        one = found[first]
        found[path] = InspectedBody(path, one.nodes, one.opaque, first)

    def refuse(refused: Refused) -> None:
        found[refused.path] = InspectedBody(refused.path, refused.nodes, why=refused.why)

    rewriting = BodyRewriting(source.proto, visit, repeat, refuse)
    rewriting.enter(source)
    return tuple(found.values())

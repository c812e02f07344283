"""Which rules an optimization may use, and which nodes it must leave alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from optimizer.options import Options
from superopt.errors import InvalidOptionError
from superopt.ir.graph import NodeId
from superopt.ir.terms import applications
from superopt.onnx_io import LiftedModel
from superopt.ops.base import OPERATORS
from superopt.rewriting import Substitution


def usable_rules(
    rules: Iterable[Substitution], options: Options, opset: int | None
) -> Iterable[Substitution]:
    """The rules that were not excluded and whose operators the model's operator set has.

    Raises InvalidOptionError for an excluded rule that there is not.
    """
    offered = tuple(rules)
    for unknown in sorted(set(options.exclude_rules) - {rule.rule_id for rule in offered}):
        raise InvalidOptionError(f"exclude-rule: there is no verified rule {unknown!r} to leave out")
    for rule in offered:
        operators = {OPERATORS[term.operator] for term in applications(*rule.target)}
        known = all(o.onnx is None or opset is None or o.onnx.since <= opset for o in operators)
        if known and rule.rule_id not in options.exclude_rules:
            yield rule


def kept_nodes(lifted: LiftedModel, names: Sequence[str]) -> frozenset[NodeId]:
    """The graph nodes of ONNX nodes; raises InvalidOptionError for a name that the model does not have.

    A node that computes sizes has none.
    """
    by_name = {node.name: index for index, node in enumerate(lifted.source.proto.graph.node) if node.name}
    given = {node.name for node in lifted.source.as_given.proto.graph.node}
    found: set[NodeId] = set()
    for name in names:
        if name not in by_name and name in given:
            continue
        if name not in by_name:
            raise InvalidOptionError(f"keep: the model has no node called {name!r}")
        group = lifted.groups.get(by_name[name])
        found.update(group.nodes if group is not None else ())
    return frozenset(found)

"""Select the rules that an optimization may use, and the nodes that it must not change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from superopt.errors import InvalidOptionError
from superopt.ir.graph import NodeId
from superopt.ir.terms import Application, Term, applications
from superopt.onnx_io import LiftedModel
from superopt.ops.base import OPERATORS
from superopt.ops.roles import FusionRole, Product
from superopt.options import Options
from superopt.rewriting import Substitution


def usable_rules(
    rules: Iterable[Substitution], options: Options, opset: int | None
) -> Iterable[Substitution]:
    """The rules that were not excluded and whose operators the model's operator set has.

    Rules about divided tensors say where plans may divide, and are used in no graph. Raises
    InvalidOptionError for an excluded rule that there is not.
    """
    offered = tuple(rules)
    for unknown in sorted(set(options.exclude_rules) - {rule.rule_id for rule in offered}):
        raise InvalidOptionError(f"exclude-rule: no verified rule {unknown!r} to exclude")
    for rule in offered:
        operators = {OPERATORS[term.operator] for term in applications(*rule.target)}
        known = all(o.onnx is None or opset is None or o.onnx.since <= opset for o in operators)
        if known and not rule.divides and rule.rule_id not in options.exclude_rules:
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
            raise InvalidOptionError(f"keep: the model has no node {name!r}")
        group = lifted.groups.get(by_name[name])
        found.update(group.nodes if group is not None else ())
    return frozenset(found)


def is_safe_with_infinities(substitution: Substitution) -> bool:
    """Whether what is finite stays so in floating point, although the equation is one of real numbers.

    Not so is a direction that introduces an exponential, as what equals it need not overflow; nor one that
    introduces a product with an identity matrix, which makes 0 times infinity of the infinite numbers that
    masks of attention have.
    """
    return not (_introduces_overflow(substitution) or _multiplies_by_zeros(substitution))


def _introduces_overflow(substitution: Substitution) -> bool:
    source, target = (
        {t.operator for t in applications(*s)} for s in (substitution.source, substitution.target)
    )
    return any(OPERATORS[name].overflows for name in target - source)


def _multiplies_by_zeros(substitution: Substitution) -> bool:
    source = frozenset(applications(*substitution.source))
    return any(
        OPERATORS[term.operator].product is Product.MATRIX
        and term not in source
        and any(_is_identity(child, term.operator) for child in term.inputs)
        for term in applications(*substitution.target)
    )


def _is_identity(term: Term, product: str) -> bool:
    """Whether it is an identity matrix, or one scaled, transposed or beside others."""
    if not isinstance(term, Application):
        return False
    operator = OPERATORS[term.operator]
    if operator.moves or operator.role is FusionRole.FACTOR:
        return any(_is_identity(child, product) for child in term.inputs)
    return operator.neutral_for == product

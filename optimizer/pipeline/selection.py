"""Select the rules that an optimization may use, and the nodes that it must not change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from superopt.domains.arrays import DEVICES
from superopt.errors import InvalidOptionError
from superopt.ir.graph import NodeId
from superopt.ir.terms import Application, Term, applications
from superopt.onnx_io import LiftedModel, has_form
from superopt.onnx_io.protos import nodes_within
from superopt.ops.base import OPERATORS
from superopt.ops.definite_sign import is_nonpositive
from superopt.ops.roles import FusionRole, Product
from superopt.options import Options
from superopt.rewriting import Substitution

MEASURED_OBJECTIVES = ("latency", "throughput", "training")
"""The objectives that are time, measured on the device."""

_MOST_COMPARED = 2000
"""Number of names among which similar ones are looked for."""


def usable_rules(
    rules: Iterable[Substitution], options: Options, opset: int | None
) -> Iterable[Substitution]:
    """The rules that are not excluded and whose operators can be written in the model's opset. Rules about
    sharded tensors license divisions in plans, and are not applied to graphs. Rules whose rounding errors are
    larger need measured costs, so they are for time on one device of this machine, and single precision.
    Raises InvalidOptionError for an excluded rule that does not exist."""
    offered = tuple(rules)
    for unknown in sorted(set(options.exclude_rules) - {rule.rule_id for rule in offered}):
        raise InvalidOptionError(f"exclude-rule: no verified rule {unknown!r} to exclude")
    may_round_more = _may_round_more(options)
    for rule in offered:
        operators = {OPERATORS[term.operator] for term in applications(*rule.target)}
        known = all(opset is None or has_form(operator, opset) for operator in operators)
        rounds = any(operator.rounds_more for operator in operators)
        if (
            known
            and (may_round_more or not rounds)
            and not rule.divides
            and rule.rule_id not in options.exclude_rules
        ):
            yield rule


def _may_round_more(options: Options) -> bool:
    is_measured = options.target in DEVICES and options.objective in MEASURED_OBJECTIVES
    return is_measured and options.cluster is None and not (options.exact_rounding or options.fp16)


def kept_nodes(lifted: LiftedModel, names: Sequence[str]) -> frozenset[NodeId]:
    """The graph nodes of ONNX nodes; raises InvalidOptionError for an unknown name. A node that computes
    sizes, or is in a body, has none."""
    by_name = {node.name: index for index, node in enumerate(lifted.source.proto.graph.node) if node.name}
    given = {node.name for node in nodes_within(lifted.source.as_given.proto.graph)}
    found: set[NodeId] = set()
    for name in names:
        if name not in by_name and name in given:
            continue
        if name not in by_name:
            near = get_close_matches(name, list(by_name)[:_MOST_COMPARED])
            hint = f"; similar names: {', '.join(near)}" if near else ""
            raise InvalidOptionError(f"keep: the model has no node {name!r}{hint}")
        group = lifted.groups.get(by_name[name])
        found.update(group.nodes if group is not None else ())
    return frozenset(found)


def is_safe_with_infinities(substitution: Substitution) -> bool:
    """Whether finite values stay finite in floating point, since the equation holds only over the reals.
    Rejects directions that introduce an exponential of what may be positive, because its equivalent need not
    overflow, and those that introduce a product with an identity matrix, which computes 0 times infinity for
    infinite attention masks."""
    return not (_introduces_overflow(substitution) or _multiplies_by_zeros(substitution))


def _introduces_overflow(substitution: Substitution) -> bool:
    source = {term.operator for term in applications(*substitution.source)}
    return any(
        OPERATORS[term.operator].overflows
        and term.operator not in source
        and not all(map(is_nonpositive, term.inputs))
        for term in applications(*substitution.target)
    )


def _multiplies_by_zeros(substitution: Substitution) -> bool:
    source = frozenset(applications(*substitution.source))
    return any(
        OPERATORS[term.operator].product is Product.MATRIX
        and term not in source
        and any(_is_identity(child, term.operator) for child in term.inputs)
        for term in applications(*substitution.target)
    )


def _is_identity(term: Term, product: str) -> bool:
    """Whether it is an identity matrix, or one scaled, transposed or concatenated."""
    if not isinstance(term, Application):
        return False
    operator = OPERATORS[term.operator]
    if operator.moves or operator.role is FusionRole.FACTOR:
        return any(_is_identity(child, product) for child in term.inputs)
    return operator.neutral_for == product

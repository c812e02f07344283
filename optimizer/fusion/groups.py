"""Fusion groups: nodes that the runtime executes together, determined from local neighbourhoods.

A group must be measured as one model for its price to be right: a convolution with the steps folded into its
weights, a residual sum and an activation; a matrix product with its bias, which may be a matrix; a
normalisation with the residual sum before it; a clip; a decomposed gelu. The tables list what *may* be fused;
whether the runtime fuses it, and with what gain, is measured.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator

from superopt.ir.graph import Graph, Input, Node, NodeId, Weight
from superopt.ir.plan import FusionGroup
from superopt.ir.types import TensorType
from superopt.ops.base import Operator
from superopt.ops.elementwise.clipping import clip_of
from superopt.ops.roles import FusionRole, Product
from superopt.ops.traits import traits
from superopt.optimizer.fusion.gates import TRANSPARENT, FreeNodes, gate_of
from superopt.optimizer.fusion.legality import transposes_matrices

_FOLLOWERS = (FusionRole.VECTOR, FusionRole.FACTOR, FusionRole.ACTIVATION, FusionRole.SUM)
_MAX_CHAIN = 8
_MATRIX_RANK = 2


class _Stage(enum.IntEnum):
    """State of a chain after a convolution or matrix product."""

    FOLDED = 0
    SUMMED = 1
    ACTIVATED = 2


def is_free(node: Node, free: FreeNodes) -> bool:
    """Whether the node belongs to no group: an input, a folded node, or one that vanishes when lowered."""
    if node.id in free or isinstance(node.operator, Input | Weight):
        return True
    return node.operator.name in TRANSPARENT


def partition(graph: Graph, free: FreeNodes) -> dict[NodeId, FusionGroup]:
    """Maps every grouped node to its group."""
    owner: dict[NodeId, FusionGroup] = {}
    for node in graph:
        if node.id not in owner and not is_free(node, free):
            group = group_of(graph, node.id, free)
            owner.update((member, group) for member in group.members)
    return owner


def group_of(graph: Graph, node_id: NodeId, free: FreeNodes) -> FusionGroup:
    """The group of a node that is not free; members are in execution order."""
    chain = chain_of(graph, node_id, free)
    if chain is not None:
        return chain
    for other in (_residual_of, _clip_of):
        found = other(graph, node_id, free)
        if found is not None:
            return found

    def is_available(member: NodeId) -> bool:
        return all(other(graph, member, free) is None for other in (chain_of, _residual_of, _clip_of))

    return gate_of(graph, node_id, free, is_available) or FusionGroup(node_id, (node_id,))


def chain_of(graph: Graph, node_id: NodeId, free: FreeNodes) -> FusionGroup | None:
    """The group of a convolution or matrix product that contains the node."""
    for head in _possible_heads(graph, node_id, free):
        group = _grow(graph, head, free)
        if node_id in group.members:
            return group
    return None


def _residual_of(graph: Graph, node_id: NodeId, free: FreeNodes) -> FusionGroup | None:
    """A row normalisation and the sum that only it reads."""
    node: Node | None = graph.nodes[node_id]
    if _role(node) is FusionRole.SUM:
        node = _only_user(graph, node)
    if node is None or _role(node) is not FusionRole.NORMALIZATION or node.id in free:
        return None
    total = graph.nodes[node.inputs[0].node]
    if _role(total) is not FusionRole.SUM or total.id in free or _only_user(graph, total) is None:
        return None
    if node_id not in (total.id, node.id) or chain_of(graph, total.id, free) is not None:
        return None
    return FusionGroup(node.id, (total.id, node.id))


def _possible_heads(graph: Graph, node_id: NodeId, free: FreeNodes) -> Iterator[NodeId]:
    """Convolutions and matrix products that may start a chain containing the node."""
    node = graph.nodes[node_id]
    if _permutation(node) is not None:
        user = _only_user(graph, node)
        if user is not None and _product(user) is Product.MATRIX:
            yield user.id
        return
    frontier = [node_id]
    for _ in range(_MAX_CHAIN):
        above: list[NodeId] = []
        for current in frontier:
            step = graph.nodes[current]
            if _product(step) is not None:
                yield current
            elif _role(step) in _FOLLOWERS:
                sources = (value.node for value in step.inputs)
                above.extend(s for s in sources if s not in free and len(graph.users(s)) == 1)
        frontier = above


def _grow(graph: Graph, head: NodeId, free: FreeNodes) -> FusionGroup:
    node = graph.nodes[head]
    members = [*_folded_transposes(graph, node, free), head]
    convolution = _product(node) is Product.CONVOLUTION
    stage = _Stage.FOLDED
    while len(members) < _MAX_CHAIN and stage is not _Stage.ACTIVATED:
        follower = _only_user(graph, node)
        if follower is None or follower.id in free:
            break
        following = _stage_after(graph, node, follower, free, convolution=convolution)
        if following is None or following < stage or following is stage is _Stage.SUMMED:
            break
        members.append(follower.id)
        node, stage = follower, following
    clipped = _clipped_by(graph, node, free) if stage is _Stage.ACTIVATED else None
    return FusionGroup(head, (*members, clipped.id) if clipped else tuple(members))


def _clip_of(graph: Graph, node_id: NodeId, free: FreeNodes) -> FusionGroup | None:
    """A gate and the factor that makes it a clip, one node when lowered, if the node is one of these and the
    gate ends no product."""
    node = graph.nodes[node_id]
    if _role(node) is FusionRole.FACTOR:
        node = graph.nodes[node.inputs[0].node]
    clipped = None if node.id in free else _clipped_by(graph, node, free)
    if clipped is None or node_id not in (node.id, clipped.id) or chain_of(graph, node.id, free) is not None:
        return None
    return FusionGroup(clipped.id, (node.id, clipped.id))


def _clipped_by(graph: Graph, gate: Node, free: FreeNodes) -> Node | None:
    """The factor that makes a gate a clip, if only that reads it."""
    factor = _only_user(graph, gate)
    if factor is None or factor.id in free or _role(factor) is not FusionRole.FACTOR:
        return None
    return factor if clip_of(gate.operator, graph.nodes[factor.inputs[1].node].operator) else None


def _stage_after(
    graph: Graph, node: Node, follower: Node, free: FreeNodes, *, convolution: bool
) -> _Stage | None:
    """The next state of a group after the node; None when the runtime does not fuse it."""
    if _role(follower) is FusionRole.ACTIVATION:
        return _Stage.ACTIVATED
    if (
        _is_folded_step(graph, follower, free, axis=1 if convolution else -1)
        and follower.inputs[0] == node.value
    ):
        return _Stage.FOLDED
    if _role(follower) is FusionRole.SUM:
        absorbs = _absorbs_sum if convolution else _absorbs_matrix
        return _Stage.SUMMED if absorbs(graph, follower, node.id, free) else None
    return None


def _is_folded_step(graph: Graph, node: Node, free: FreeNodes, *, axis: int) -> bool:
    """Whether the step's vectors are weights along the output channels, so that it can be folded."""
    role = _role(node)
    if role not in (FusionRole.VECTOR, FusionRole.FACTOR):
        return False
    if any(value.node not in free for value in node.inputs[1:]):
        return False
    if role is FusionRole.FACTOR:
        return True
    type_ = graph.type_of(node.inputs[0])
    own: int = getattr(node.operator, "axis", 0)
    return isinstance(type_, TensorType) and own % type_.rank == axis % type_.rank


def _absorbs_sum(graph: Graph, total: Node, last: NodeId, free: FreeNodes) -> bool:
    """Whether the group takes in the sum: a sum of two convolutions belongs to the one that runs later,
    assumed to be the one with the larger id."""
    first, second = (value.node for value in total.inputs)
    if first == second or not _ends_convolution(graph, last, free):
        return False
    other = second if first == last else first
    return other < last or other in free or not _ends_convolution(graph, other, free)


def _absorbs_matrix(graph: Graph, total: Node, last: NodeId, free: FreeNodes) -> bool:
    """Whether the group takes in the sum: a matrix product takes a third matrix as its bias, and a sum of two
    products belongs to the first."""
    first, second = (value.node for value in total.inputs)
    if first == second or not _is_plain_product(graph, last):
        return False
    other = second if first == last else first
    return other > last or other in free or not _is_plain_product(graph, other)


def _is_plain_product(graph: Graph, node_id: NodeId) -> bool:
    node = graph.nodes[node_id]
    type_ = node.types[0]
    return (
        _product(node) is Product.MATRIX
        and isinstance(type_, TensorType)
        and type_.rank == _MATRIX_RANK
        and _only_user(graph, node) is not None
    )


def _ends_convolution(graph: Graph, node_id: NodeId, free: FreeNodes) -> bool:
    """Whether the node is a convolution with constant weights, or the last step folded into one, with one
    reader."""
    node = graph.nodes[node_id]
    for _ in range(_MAX_CHAIN):
        if _only_user(graph, node) is None:
            return False
        if _product(node) is Product.CONVOLUTION:
            return node.inputs[1].node in free
        if not _is_folded_step(graph, node, free, axis=1):
            return False
        node = graph.nodes[node.inputs[0].node]
    return False


def _folded_transposes(graph: Graph, product: Node, free: FreeNodes) -> list[NodeId]:
    """Transpositions of the last two axes that only this product reads, and that are not written as a
    reshape."""
    found: list[NodeId] = []
    for value in dict.fromkeys(product.inputs):
        node, type_ = graph.nodes[value.node], graph.type_of(value)
        if value.node in free or not isinstance(type_, TensorType):
            continue
        is_swapped = transposes_matrices(node.operator, type_.rank) and 1 not in type_.shape[-2:]
        if is_swapped and _only_user(graph, node) is not None:
            found.append(node.id)
    return found


def _permutation(node: Node) -> tuple[int, ...] | None:
    """The permutation of a node that only permutes axes."""
    type_ = node.types[0] if node.types else None
    if not isinstance(node.operator, Operator) or not isinstance(type_, TensorType):
        return None
    return node.operator.permutation(type_.rank)


def _role(node: Node) -> FusionRole | None:
    return traits(node.operator.name).role


def _product(node: Node) -> Product | None:
    return traits(node.operator.name).product


def _only_user(graph: Graph, node: Node) -> Node | None:
    """The only reader of a single-output node that is not a graph output."""
    users = graph.users(node.id)
    if len(users) != 1 or len(node.types) != 1 or node.id in graph.output_nodes:
        return None
    return graph.nodes[users[0]]

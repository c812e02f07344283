"""Which operators may be one kernel, by their traits.

The rules are those by which XLA and TVM generate kernels (TVM's classes injective, reduction and
complex-out-fusable): what computes elements independently may be fused without limit, a product or a function
of lines with what follows it, a reduction with what precedes it. A kernel is one loop over one set of
elements, so everything that it computes for others has equally many.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from superopt.ir.graph import GraphOperator
from superopt.ops.base import Operator
from superopt.ops.matrix import permutation_of
from superopt.ops.opaque import Opaque
from superopt.ops.roles import FusionRole, Product
from superopt.ops.traits import traits

MOST_OPERANDS = 96
"""The largest number of operands and results of a kernel (XLA's ``MaxOperandsAndOutputsPerFusion``)."""


class KernelRole(enum.Enum):
    """What an operator does in a kernel. ``ELEMENTS``: each element from some elements of the operands;
    ``LINES``: lines from lines; ``REDUCTION``: lines to elements; ``PRODUCT``: a sum of products;
    ``ALONE``: never fused."""

    ELEMENTS = enum.auto()
    LINES = enum.auto()
    REDUCTION = enum.auto()
    PRODUCT = enum.auto()
    ALONE = enum.auto()


_MAIN = (KernelRole.LINES, KernelRole.REDUCTION, KernelRole.PRODUCT)


@dataclass(frozen=True, slots=True)
class Member:
    """An operator in a kernel: its role, the number of elements over which it loops, and for each operand
    whether the kernel may compute it. A product takes transposed matrices only."""

    role: KernelRole
    extent: int
    takes: tuple[bool, ...]


def kernel_role(operator: GraphOperator) -> KernelRole:
    """The role of an operator."""
    if isinstance(operator, Opaque) or not isinstance(operator, Operator):
        return KernelRole.ALONE
    own = traits(operator.name)
    if own.product is not None:
        return KernelRole.PRODUCT
    if own.reduction:
        return KernelRole.REDUCTION
    if own.element_wise or own.per_channel or own.moves:
        return KernelRole.ELEMENTS
    if own.along_axis or own.role is FusionRole.NORMALIZATION:
        return KernelRole.LINES
    return KernelRole.ALONE


def transposes_matrices(operator: GraphOperator, rank: int) -> bool:
    """Whether the operator exchanges the last two axes and no others: a matrix product reads that as it
    is."""
    permutation = operator.permutation(rank) if isinstance(operator, Operator) and rank > 1 else None
    return permutation is not None and permutation == permutation_of((), rank)


def takes_transposed(operator: GraphOperator) -> bool:
    """Whether the operator is a product of matrices."""
    return traits(operator.name).product is Product.MATRIX


def why_not_one(
    members: Mapping[int, Member],
    inner: Iterable[tuple[int, int, int]],
    written: Sequence[int],
) -> str | None:
    """Why these members cannot be one kernel; None if they can. ``inner`` are the operands that the kernel
    computes: producer, reader and slot. ``written`` are the members that are read elsewhere."""
    alone = [number for number, member in members.items() if member.role is KernelRole.ALONE]
    if alone:
        return "one of them is never fused"
    main = [member for member in members.values() if member.role in _MAIN]
    if len({id(member) for member in main if member.role is not KernelRole.REDUCTION}) > 1:
        return "more than one of them is a product or computes lines"
    if len({member.role for member in main}) > 1:
        return "a product or lines and a reduction are two loops"
    inner = tuple(inner)
    transposed = {producer for producer, reader, _ in inner if members[reader].role is KernelRole.PRODUCT}
    for producer, reader, slot in inner:
        if members[producer].role is KernelRole.REDUCTION:
            return "a reduction is read by another of them"
        if reader in transposed or not members[reader].takes[slot]:
            return "a product reads what another of them computes"
    extents = {members[number].extent for number in written}
    extents.update(member.extent for member in main)
    if len(extents) > 1:
        return f"they loop over different numbers of elements: {', '.join(map(str, sorted(extents)))}"
    return None

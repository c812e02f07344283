"""The identity that defines an adjoint, for all real inputs of small shapes.

Dual numbers over Z3 reals give the Jacobian of the operator column by column: the directions are the unit
vectors of the operand, as a stack. Each element of the gradient equals the inner product of its column with
the cotangent, whose elements are symbols.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from fractions import Fraction
from typing import Any, cast

import numpy as np
import z3

from superopt.domains import Array
from superopt.domains.symbolic import SymbolicDomain
from superopt.equations import Adjoint
from superopt.errors import SuperoptError
from superopt.instances.instance import Instance
from superopt.verifier.adjoints.pairing import sides
from superopt.verifier.prove.solver import SolverLimits

LIMITS = SolverLimits(resources=1_000_000)
_MILLISECONDS = 5_000
Expression = Any  # z3 has no types


def holds_for_all_reals(adjoint: Adjoint, instance: Instance, limits: SolverLimits = LIMITS) -> bool:
    """Whether both sides are shown equal for all real inputs at which no divisor is 0. False says nothing:
    laws of roots and of named functions are not known to the solver."""
    context = z3.Context()
    domain = SymbolicDomain(context)
    arrays = {
        name: domain.variables(name, cast("tuple[int, ...]", type_.array_shape))
        for name, type_ in sorted(instance.types.items())
    }
    directions = _unit_vectors(domain, arrays[adjoint.operand.name].shape[1:])
    try:
        found = sides(adjoint, instance, domain, arrays, directions)
    except SuperoptError:
        return False
    left, right = domain.sum(found.left, 0), domain.sum(found.right, 0)
    differences = [
        difference
        for one, other in zip(*np.broadcast_arrays(left, right), strict=True)
        if not _is_zero(difference := _simplified(one, other, context))
    ]
    return not differences or _are_zero(differences, domain, context, limits)


def _unit_vectors(domain: SymbolicDomain, shape: tuple[int, ...]) -> Array:
    """[elements, *shape]: one direction for each element of a tensor."""
    count = int(np.prod(shape, dtype=np.int64))
    units = np.eye(count, dtype=np.int64).reshape(count, *shape)
    directions = np.empty(units.shape, object)
    for index in np.ndindex(units.shape):
        directions[index] = domain.number(Fraction(int(units[index])))
    return directions


def _simplified(one: object, other: object, context: z3.Context) -> Expression:
    return z3.simplify(_real(one, context) - _real(other, context), som=True, sort_sums=True)


def _is_zero(difference: Expression) -> bool:
    return isinstance(difference, z3.RatNumRef) and difference.numerator_as_long() == 0


def _are_zero(
    differences: list[Expression], domain: SymbolicDomain, context: z3.Context, limits: SolverLimits
) -> bool:
    solver = z3.Solver(ctx=context)
    solver.set(timeout=_MILLISECONDS, rlimit=limits.resources, max_memory=limits.megabytes)
    solver.add(*domain.facts, *domain.needs, *domain.definitions)
    zero = z3.RealVal(0, context)
    solver.add(z3.Or(*(difference != zero for difference in differences)))
    try:
        return solver.check() == z3.unsat
    except z3.Z3Exception:
        return False


def _real(value: object, context: z3.Context) -> Expression:
    """An empty sum is a plain integer."""
    return value if isinstance(value, z3.ArithRef) else z3.RealVal(value, context)


__all__ = ["holds_for_all_reals"]

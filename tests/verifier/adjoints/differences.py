"""Central differences over float64: derivatives of operators without dual numbers."""

from __future__ import annotations

from typing import cast

import numpy as np

from superopt.domains import Array, FloatDomain
from superopt.equations import Adjoint
from superopt.instances.instance import Instance
from superopt.ir.terms import Application
from superopt.ir.types import TensorType
from superopt.rewriting.evaluation import evaluate_terms

STEP = 1e-5
TOLERANCE = 1e-5


def shape_of(type_: TensorType) -> tuple[int, ...]:
    """The shape of a tensor of known sizes."""
    return cast("tuple[int, ...]", type_.array_shape)


def drawn_arrays(instance: Instance, generator: np.random.Generator) -> dict[str, Array]:
    """Positive numbers for every input, a stack of one."""
    return {
        name: generator.uniform(0.4, 2.5, (1, *shape_of(type_)))
        for name, type_ in sorted(instance.types.items())
    }


def jacobian(application: Application, instance: Instance, arrays: dict[str, Array], operand: str) -> Array:
    """[elements of the operand, *shape of the result]: derivatives of the result by each element."""
    shape = arrays[operand].shape[1:]
    count = int(np.prod(shape, dtype=np.int64))
    units = STEP * np.eye(count).reshape(count, *shape)
    domain = FloatDomain(np.float64)
    ends = [
        evaluate_terms(
            (application,), instance.typing, domain, arrays | {operand: arrays[operand] + sign * units}
        )[0]
        for sign in (1, -1)
    ]
    one, other = (np.broadcast_to(end, (count, *end.shape[1:])) for end in ends)
    return (one - other) / (2 * STEP)


def is_gradient(adjoint: Adjoint, instance: Instance, generator: np.random.Generator) -> bool:
    """Whether the statement agrees with central differences at a random point of the instance."""
    arrays = drawn_arrays(instance, generator)
    arrays[adjoint.cotangent.name] = generator.normal(size=arrays[adjoint.cotangent.name].shape)
    columns = jacobian(adjoint.application, instance, arrays, adjoint.operand.name)
    expected = (columns * arrays[adjoint.cotangent.name]).reshape(len(columns), -1).sum(axis=1)
    with np.errstate(all="ignore"):
        (found,) = evaluate_terms((adjoint.gradient,), instance.typing, FloatDomain(np.float64), arrays)
    found = np.broadcast_to(found, (1, *found.shape[1:])).reshape(-1)
    if found.shape != expected.shape:
        return False
    scale = 1 + np.abs(expected).max(initial=0) + np.abs(columns).max(initial=0)
    return bool((np.abs(found - expected) <= TOLERANCE * scale).all())

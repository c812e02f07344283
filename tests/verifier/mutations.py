"""Small changes to an equation, most of which make it wrong."""

# ruff: noqa: ARG001 (every kind of change has the same signature)

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from superopt.ir.terms import Application, Equation, Term, Variable, applications, variables
from superopt.ops.terms import application

_OTHER_OPERATOR = {
    "add": "mul", "mul": "add", "split0": "split1", "split1": "split0", "relu": "sigmoid",
    "maxpool": "avgpool", "avgpool": "maxpool", "channel_scale": "bias_add", "bias_add": "channel_scale",
}  # fmt: skip
_OTHER_VALUE: dict[str, tuple[object, ...]] = {
    "axis": (0, 1, -1, -2),
    "stride": ((1, 1), (2, 2), (1, 2)),
    "padding": ("valid", "same", "same_upper", "same_lower"),
    "activation": ("none", "relu", "sigmoid"),
    "kernel": ((1, 1), (3, 3), (2, 2)),
}
_DROPPED = ("relu", "transpose", "enlarge", "maxpool", "avgpool", "scale", "channel_scale")


def mutations(equation: Equation, count: int, seed: int) -> list[Equation]:
    """Up to ``count`` different mutants of the right side, none equal to the equation."""
    generator = random.Random(seed)
    found: dict[Equation, None] = {}
    for _ in range(20 * count):
        mutant = _mutate(equation, generator)
        if mutant is not None and mutant.right != equation.right:
            found[mutant] = None
        if len(found) == count:
            break
    return list(found)


def _mutate(equation: Equation, generator: random.Random) -> Equation | None:
    nodes = list(applications(*equation.right))
    if not nodes:
        return None
    victim = generator.choice(nodes)
    change = generator.choice((_swap_inputs, _other_operator, _other_value, _drop, _wrap, _other_input))
    replacement = change(victim, variables(*equation.left), generator)
    if replacement is None:
        return None
    right = tuple(_replaced(term, victim, replacement) for term in equation.right)
    if not set(variables(*right)) <= set(variables(*equation.left)):
        return None
    return replace(equation, right=right)


def _swap_inputs(
    victim: Application,
    names: Sequence[str],
    generator: random.Random,
) -> Term | None:
    inputs = list(victim.inputs)
    if len(inputs) < 2:
        return None
    generator.shuffle(inputs)
    return replace(victim, inputs=tuple(inputs))


def _other_operator(
    victim: Application,
    names: Sequence[str],
    generator: random.Random,
) -> Term | None:
    other = _OTHER_OPERATOR.get(victim.operator)
    return None if other is None else application(other, dict(victim.attributes), *victim.inputs)


def _other_value(
    victim: Application,
    names: Sequence[str],
    generator: random.Random,
) -> Term | None:
    options = [name for name in _OTHER_VALUE if _accepts(victim, name)]
    if not options:
        return None
    name = generator.choice(options)
    values = dict(victim.attributes) | {name: generator.choice(_OTHER_VALUE[name])}
    return application(victim.operator, values, *victim.inputs)  # pyright: ignore[reportArgumentType]


def _accepts(victim: Application, name: str) -> bool:
    return victim.attribute(name) is not None or (
        victim.operator == "conv" and name in ("stride", "padding", "activation")
    )


def _drop(
    victim: Application,
    names: Sequence[str],
    generator: random.Random,
) -> Term | None:
    return victim.inputs[0] if victim.operator in _DROPPED else None


def _wrap(
    victim: Application,
    names: Sequence[str],
    generator: random.Random,
) -> Term | None:
    return application(generator.choice(("relu", "transpose", "sigmoid")), {}, victim)


def _other_input(
    victim: Application,
    names: Sequence[str],
    generator: random.Random,
) -> Term | None:
    if not victim.inputs:
        return None
    inputs = list(victim.inputs)
    inputs[generator.randrange(len(inputs))] = Variable(generator.choice(names))
    return replace(victim, inputs=tuple(inputs))


def _replaced(term: Term, old: Term, new: Term) -> Term:
    if term == old:
        return new
    if isinstance(term, Variable):
        return term
    return replace(term, inputs=tuple(_replaced(child, old, new) for child in term.inputs))

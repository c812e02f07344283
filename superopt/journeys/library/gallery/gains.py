"""Gains of rules by the operators' analytic work, at typical sizes.

The cost of a side is its time on a nominal machine. Parameters (kernels, scales, shifts), and operands of
products if that gains more, are constants: whatever depends on them alone costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from superopt.errors import IllTypedError
from superopt.ir.terms import Application, Equation, Term, Variable, applications, variables
from superopt.ir.types import TensorType
from superopt.ops.roles import Product
from superopt.ops.traits import traits
from superopt.rewriting import Typing, holds, substitutions_of
from superopt.rewriting.concrete import operator_symbols, substituted, with_numbers
from superopt.rewriting.typing import FRESH
from superopt.verifier.instances.sampler import InstanceSampler
from superopt.verifier.instances.schemes import Scheme

FLOPS_PER_MICROSECOND = 100_000
BYTES_PER_MICROSECOND = 20_000
LAUNCH_MICROSECONDS = 2.0
"""The nominal machine: 100 GFLOP/s, 20 GB/s, and a fixed time for each operator."""

SIZE = 64
IMAGE = 28
KERNELS = (3, 1)
SKEWED = (4, 1024)
"""Channels, rows and columns; sides of images; sides of kernels; and the sizes that one dimension at a time
has instead.
"""

USUAL_DIMENSIONS = (2, 3, 4)
_SCHEMES = 3


@dataclass(frozen=True, slots=True)
class Gain:
    """The cost of the more expensive side divided by that of the other, with its assumptions.

    ``backwards``: the right side is more expensive. ``known`` are the variables assumed constant, ``types``
    the types of all.
    """

    ratio: float
    backwards: bool
    known: tuple[str, ...]
    types: Mapping[str, TensorType]

    @property
    def saved(self) -> float:
        """The relative saving."""
        return 1 - 1 / self.ratio


def gains(equation: Equation) -> tuple[Gain, ...]:
    """The gain of an equation under each assumption; empty if no instance has such sizes."""
    unusual: list[Scheme] = []
    for scheme in InstanceSampler(equation, seed=0).schemes(_SCHEMES):
        if _is_unusual(scheme):
            unusual.append(scheme)
        elif found := tuple(_gains(equation, scheme)):
            return found
    return next(filter(None, (tuple(_gains(equation, scheme)) for scheme in unusual)), ())


def _is_unusual(scheme: Scheme) -> bool:
    most = max((type_.rank for type_ in scheme.types.values()), default=0)
    return most not in USUAL_DIMENSIONS


def _gains(equation: Equation, scheme: Scheme) -> Iterator[Gain]:
    ordered = equation.applications
    names = equation.variables
    weights = [known for known in _weights(ordered) if _leaves_work(equation, known)]
    for numbers in _numbers(equation, scheme):
        try:
            typing = with_numbers(scheme.typing, ordered, scheme.types, numbers)
        except IllTypedError:
            continue
        types = {name: typing.types[Variable(name)] for name in names}
        attributes = {name: substituted(value, numbers) for name, value in scheme.attributes.items()}
        if not _is_real(typing) or not all(holds(c, types, attributes) for c in equation.conditions):
            continue
        costs = {term: _microseconds(term, typing) for term in ordered}
        for known in weights:
            left, right = (
                LAUNCH_MICROSECONDS
                + sum(costs[term] for term in applications(*side) if not _is_known(term, known))
                for side in (equation.left, equation.right)
            )
            yield Gain(max(left, right) / min(left, right), right > left, tuple(sorted(known)), types)


def _leaves_work(equation: Equation, known: frozenset[str]) -> bool:
    """Whether no output is constant."""
    return not any(_is_known(term, known) for term in equation.terms)


def _is_known(term: Term, known: frozenset[str]) -> bool:
    return known.issuperset(variables(term))


def _weights(ordered: Sequence[Application]) -> Iterator[frozenset[str]]:
    """The sets of variables that may be constant: parameters, and all operands of products but one."""
    parameters = frozenset(variables(*(term for user in ordered for term in _parameters(user))))
    products = [term for term in ordered if traits(term.operator).product is Product.MATRIX]
    operands = frozenset(variables(*(child for term in products for child in term.inputs))) - parameters
    yield parameters
    if operands:
        yield parameters | operands
        yield from (parameters | operands - {unknown} for unknown in sorted(operands))


def _parameters(term: Application) -> tuple[Term, ...]:
    """The inputs that are weights in every model: kernels, scales, shifts."""
    place = traits(term.operator).parameters
    return () if place is None else term.inputs[place:]


def _numbers(equation: Equation, scheme: Scheme) -> Iterator[Mapping[str, int]]:
    kernels = frozenset(_kernel_symbols(equation))
    named = [type_.symbols for type_ in scheme.typing.types.values()]
    named.extend(operator_symbols(operator) for operator in scheme.typing.operators.values())
    free = sorted(frozenset[str]().union(*named))
    for kernel in KERNELS if kernels.intersection(free) else KERNELS[:1]:
        usual = {name: kernel if name in kernels else _usual(name) for name in free}
        yield usual
        for name in free:
            if name not in kernels and usual[name] == SIZE:
                yield from ({**usual, name: size} for size in SKEWED)


def _usual(name: str) -> int:
    if name.startswith("groups"):
        return 1
    if name.startswith((FRESH, "cut")):
        return SIZE // 2
    return IMAGE if name.endswith((".2", ".3")) else SIZE


def _kernel_symbols(equation: Equation) -> Iterator[str]:
    for term in equation.applications:
        place = traits(term.operator).kernel_input
        if place is not None and place < len(term.inputs):
            for name in variables(term.inputs[place]):
                yield from (f"{name}.2", f"{name}.3")


def _is_real(typing: Typing) -> bool:
    sizes = (size for type_ in typing.types.values() for size in type_.shape)
    return all(isinstance(size, int) and size > 0 for size in sizes)


def _microseconds(term: Application, typing: Typing) -> float:
    inputs = tuple(typing.types[child] for child in term.inputs)
    work = typing.operators[term].work(inputs, (typing.types[term],))
    flops, moved = cast("int", work.flops), cast("int", work.bytes)
    return LAUNCH_MICROSECONDS + max(flops / FLOPS_PER_MICROSECOND, moved / BYTES_PER_MICROSECOND)


def best_gain(equation: Equation) -> Gain | None:
    """The largest gain in a direction of the rule; None if there is none."""
    ways = {rule.backwards for rule in substitutions_of(equation, "")}
    found = [gain for gain in gains(equation) if gain.backwards in ways and gain.ratio > 1]
    return max(found, key=lambda gain: gain.ratio, default=None)

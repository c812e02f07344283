"""Questions about a rule and a library of verified rules: is it one of them, do they derive it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace

from superopt.equations import rule_id
from superopt.instances.sampler import InstanceSampler
from superopt.ir.terms import Direction, Equation
from superopt.rewriting.derivability import Question
from superopt.verifier.seeds import seed_of

TYPINGS = 3
_SEED = 21


def questions(equation: Equation, typings: int = TYPINGS) -> Iterator[Question]:
    """The rule under typings that differ in more than sizes. Sizes are symbols where that is possible; a
    derivation then holds for all sizes.
    """
    sampler = InstanceSampler(equation, seed_of(equation, _SEED))
    for scheme in sampler.schemes(typings):
        symbolic = sampler.symbolic(scheme)
        found = itertools.islice(sampler.concrete(scheme, 1), 1) if symbolic is None else (symbolic,)
        yield from (Question(equation, instance.typing) for instance in found)


def identities(equations: Iterable[Equation]) -> frozenset[str]:
    """The ids of these rules in either direction and both; a rule has the same id under other names."""
    ways = (Direction.BOTH, Direction.FORWARD)
    return frozenset(rule_id(replace(equation, direction=way)) for equation in equations for way in ways)

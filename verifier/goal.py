"""Goal: an equation to be decided, with what every step of that needs to know of it, found once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from superopt.axioms import AxiomSet
from superopt.ir.terms import Equation
from superopt.verifier.certificates.cases import cases_of
from superopt.verifier.certificates.rank_bound import largest_rank
from superopt.verifier.instances.instance import Instance
from superopt.verifier.instances.sampler import InstanceSampler
from superopt.verifier.prove.solver import SolverLimits
from superopt.verifier.refute.refutation import Effort
from superopt.verifier.seeds import seed_of


@dataclass(frozen=True)
class Options:
    """Effort of verification. Evaluation must agree on at least ``least_instances`` well-typed instances.

    ``seed`` selects the inputs and instances for evaluation; None takes one from the operating system, so
    that nobody can design an equation that agrees on them by chance.
    """

    effort: Effort = field(default_factory=Effort)
    limits: SolverLimits = field(default_factory=SolverLimits)
    least_instances: int = 3
    concrete_instances: int = 6
    symbolic_instances: int = 6
    searches: int = 4
    instances_to_validate: int = 2
    seed: int | None = 0


@dataclass(frozen=True)
class Goal:
    """An equation to be decided from the axioms."""

    equation: Equation
    axioms: AxiomSet
    options: Options
    seed: int

    def seed_of(self, purpose: int) -> int:
        """Return the seed for one purpose."""
        return seed_of(self.equation, purpose, self.seed)

    @cached_property
    def sampler(self) -> InstanceSampler:
        """Random instances."""
        return InstanceSampler(self.equation, self.seed_of(0))

    @cached_property
    def rank(self) -> int:
        """The largest rank of what the equation says. Raises IllTypedError if there is no known bound."""
        return largest_rank(self.equation)

    @cached_property
    def cases(self) -> Sequence[Instance]:
        """All cases up to that rank. Raises UndecidedCasesError, and IllTypedError if the ranks of the sides
        differ."""
        return tuple(cases_of(self.equation, self.rank))


__all__ = ["Goal", "Options"]

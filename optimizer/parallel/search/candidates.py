"""Candidate plans: proposed, evaluated, and the best one."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from superopt.ir.plan import Plan
from superopt.optimizer.parallel.experts import Assignment
from superopt.optimizer.parallel.search.subject import Subject
from superopt.optimizer.parallel.simulator import Simulation


class Origin(enum.StrEnum):
    """Where a plan comes from."""

    EXPERT = "expert"
    MAPPING = "dynamic programming"
    PIPELINE = "pipeline"
    REFINED = "refined"
    GIVEN = "given"


@dataclass(frozen=True, slots=True)
class Proposal:
    """A plan to be evaluated; ``assignment`` is what it was made from, where that is known."""

    name: str
    origin: Origin
    plan: Plan
    assignment: Assignment | None = None


@dataclass(frozen=True, slots=True)
class SimulatedPlan:
    """A plan that was evaluated; ``fits``: no device needs more memory than it has."""

    proposal: Proposal
    simulation: Simulation
    fits: bool

    @property
    def plan(self) -> Plan:
        """The plan."""
        return self.proposal.plan

    @property
    def rank(self) -> tuple[bool, float]:
        """What makes one plan better than another: that it fits, then its time."""
        return (not self.fits, self.simulation.microseconds)


@dataclass(frozen=True)
class Planned:
    """The best plan of a graph, all that were evaluated, and how much was searched."""

    subject: Subject
    best: SimulatedPlan
    candidates: tuple[SimulatedPlan, ...]
    seconds: float

    @property
    def experts(self) -> tuple[SimulatedPlan, ...]:
        """The plans of experts, by time."""
        experts = (c for c in self.candidates if c.proposal.origin is Origin.EXPERT)
        return tuple(sorted(experts, key=lambda c: c.rank))

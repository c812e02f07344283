"""Candidate plans: proposed, evaluated, and the best one."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from superopt.ir.plan import Plan
from superopt.optimizer.parallel.experts import Assignment
from superopt.optimizer.parallel.search.subject import Subject
from superopt.optimizer.parallel.simulator import Simulation


class Origin(enum.StrEnum):
    """How a plan was found."""

    EXPERT = "expert"
    MAPPING = "dynamic programming"
    PIPELINE = "pipeline"
    REFINED = "refined"
    JOINT = "joint fusion"
    GIVEN = "given"


@dataclass(frozen=True, slots=True)
class Proposal:
    """A plan to be evaluated; ``assignment`` is its source, if known."""

    name: str
    origin: Origin
    plan: Plan
    assignment: Assignment | None = None


@dataclass(frozen=True, slots=True)
class SimulatedPlan:
    """An evaluated plan; ``fits``: no device exceeds its memory."""

    proposal: Proposal
    simulation: Simulation
    fits: bool

    @property
    def plan(self) -> Plan:
        """The plan."""
        return self.proposal.plan

    @property
    def rank(self) -> tuple[bool, float]:
        """Sort key of plans: those that fit first, then by time."""
        return (not self.fits, self.simulation.microseconds)


@dataclass(frozen=True)
class Planned:
    """The best plan of a graph, all evaluated plans, and search statistics."""

    subject: Subject
    best: SimulatedPlan
    candidates: tuple[SimulatedPlan, ...]
    seconds: float

    @property
    def experts(self) -> tuple[SimulatedPlan, ...]:
        """The expert plans, by time."""
        experts = (c for c in self.candidates if c.proposal.origin is Origin.EXPERT)
        return tuple(sorted(experts, key=lambda c: c.rank))

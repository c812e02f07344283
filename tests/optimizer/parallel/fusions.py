"""Joint fusions of small training steps."""

from __future__ import annotations

import random
from functools import cache

from superopt import zoo
from superopt.optimizer.fusion.joint.problem import Problem
from superopt.optimizer.fusion.joint.published import METHODS
from superopt.optimizer.fusion.joint.state import Joint
from superopt.optimizer.fusion.joint.streams import timed
from superopt.optimizer.fusion.joint.sums import GradientSums
from superopt.optimizer.fusion.joint.turns import send_earlier_somewhere
from superopt.optimizer.parallel.experts import experts
from superopt.optimizer.parallel.search.choices import everything
from superopt.optimizer.parallel.search.mesh import Mesh
from superopt.optimizer.parallel.simulator import ParallelObjective, Simulator
from superopt.optimizer.parallel.training_plans.sharded_states import DDP
from tests.optimizer.parallel.explicit_steps import ExplicitStep, explicit_step
from tests.optimizer.parallel.networks import devices

DEVICES = 2
_MOST_TURNS = 4


@cache
def small_step(model: str = "light-mlp") -> ExplicitStep:
    """A training step of 8 samples."""
    return explicit_step(zoo.build(model, batch=8), "momentum", "cross-entropy")


@cache
def simulator(model: str = "light-mlp") -> Simulator:
    """The simulator of the step on two devices."""
    step = small_step(model)
    return Simulator(step.graph, devices(DEVICES), ParallelObjective.LATENCY, step=step.states)


@cache
def problem(model: str = "light-mlp") -> Problem:
    """Data parallelism of the step on two devices."""
    mesh = Mesh.of(devices(DEVICES))
    plan = next(one.plan for one in experts(small_step(model).subject, mesh) if one.name == DDP)
    return Problem.of(simulator(model).simulate(plan))


@cache
def sums(model: str = "light-mlp") -> GradientSums:
    """The ways to sum gradients of the step on two devices."""
    return GradientSums(small_step(model).subject, everything, simulator(model))


def random_joint(seed: int, times: int = 40, model: str = "light-mlp") -> Joint:
    """A candidate after random changes by all of DisCo's methods, and of turns."""
    chance = random.Random(seed)
    joint = Joint.unfused(problem(model))
    known = timed(joint)
    for _ in range(times):
        method = chance.choice(METHODS)
        if method is METHODS[2]:
            known = timed(joint)
        if any(head not in joint.nodes for head in known.order):
            known = timed(joint)
        method(joint, known, chance)
    for _ in range(seed % _MOST_TURNS):
        send_earlier_somewhere(joint, timed(joint), chance)
    return joint

"""Training steps, strategies that delay or compress their gradients, and the steps that these train."""

from __future__ import annotations

from functools import cache

from superopt import zoo
from superopt.journeys.planning.applied_strategy import write_changed
from superopt.journeys.planning.lifted_steps import LiftedStep
from superopt.onnx_io import build_model
from superopt.ops.elementwise.activation import Relu
from superopt.ops.matrix import Matmul
from superopt.optimizer.parallel.search.subject import plannable
from superopt.optimizer.parallel.strategies.applying import ChangedStep, GradientSums
from superopt.optimizer.parallel.strategies.builders import Setting, build
from superopt.optimizer.parallel.strategies.inexact import Inexactness, inexact
from superopt.optimizer.parallel.strategies.model import (
    Compressor,
    Strategy,
)
from superopt.optimizer.parallel.topology import Cluster
from superopt.step_options import UpdateSettings
from tests.optimizer.graphs import Builder
from tests.optimizer.parallel.explicit_steps import ExplicitStep, explicit_step
from tests.optimizer.parallel.random_plans import random_arrays

CAST, FEEDBACK = Inexactness(0, Compressor.CAST), Inexactness(0, Compressor.CAST_WITH_FEEDBACK)
SAMPLES = 6
RATE = float(UpdateSettings(optimizer="sgd").base_rate or 0)


@cache
def given_step(optimizer: str = "sgd", clip_norm: float | None = None) -> ExplicitStep:
    return explicit_step(zoo.build("light-mlp", batch=SAMPLES), optimizer, clip_norm=clip_norm)


@cache
def step_of_equal_shapes() -> ExplicitStep:
    """Two parameters of one shape, and clipping by the norm of both gradients."""
    b = Builder()
    x = b.add(Relu(), b.add(Matmul(), b.input("x", SAMPLES, 8), b.weight(8, 8)))
    graph = b.graph(b.add(Matmul(), x, b.weight(8, 8)))
    return explicit_step(build_model(graph, random_arrays(graph)), clip_norm=0.01)


def content_of(step: ExplicitStep) -> bytes:
    return step.lifted.source.proto.SerializeToString()


def strategy_for(step: ExplicitStep, machine: Cluster, builder: str, asked: Inexactness) -> Strategy:
    planner = LiftedStep(step.lifted, step.layout).planner(machine)
    names = [variable.name for variable in planner.variables]
    return inexact(build(builder, planner.variables, Setting(machine, chunk=4)), asked, names)


def step_of_strategy(step: ExplicitStep, machine: Cluster, strategy: Strategy) -> ExplicitStep:
    """The step of a strategy, written and read again."""
    lifted = LiftedStep(step.lifted, step.layout)
    planner = lifted.planner(machine)
    changes = GradientSums(planner).changes(strategy)
    model = write_changed(lifted, ChangedStep.of(step.lifted.graph, step.layout, changes), changes)
    again = LiftedStep.of(model.to_bytes())
    return ExplicitStep(again.lifted, plannable(again.lifted.graph), again.layout)

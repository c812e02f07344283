"""Training steps of networks of the zoo as graphs to be planned, before they are written."""

from __future__ import annotations

from dataclasses import dataclass

from superopt import zoo
from superopt.ir.graph import Graph
from superopt.journeys.training import train_graph
from superopt.optimizer.parallel.search.subject import plannable
from superopt.optimizer.parallel.states import StepLayout
from superopt.step_options import COTANGENTS, StepSettings


@dataclass(frozen=True)
class Step:
    """A training step to be divided."""

    graph: Graph
    layout: StepLayout


def built(network: str, batch: int, optimizer: str) -> Step:
    """The step of a network, its normalisations with running statistics, which a cluster need not sum."""
    options = {"optimizer": optimizer, "loss": COTANGENTS, "batch_norm": "frozen"}
    step = train_graph(zoo.build(network, batch=batch), StepSettings.from_json(options)).step
    return Step(plannable(step.graph), StepLayout(step.description, step.outputs))

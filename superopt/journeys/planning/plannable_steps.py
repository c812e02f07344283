"""Training steps of networks of the zoo as graphs to be planned, before they are written."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from superopt import zoo
from superopt.ir.graph import Graph
from superopt.journeys.training import train_graph
from superopt.optimizer.parallel.search.subject import Subject, plannable
from superopt.optimizer.parallel.training_plans.states import StepLayout
from superopt.step_options import COTANGENTS, StepSettings


@dataclass(frozen=True)
class PlannableStep:
    """A training step to be planned: a graph of known sizes, and what its inputs and outputs are."""

    graph: Graph
    layout: StepLayout

    @cached_property
    def subject(self) -> Subject:
        """The planning problem."""
        return Subject.of(self.graph, self.layout)


def network_step(network: str, samples: int, optimizer: str) -> PlannableStep:
    """The step of a network of the zoo for given cotangents, its normalisations with running statistics,
    which a cluster need not sum. Weights are not drawn, so a network may be of any size. Raises
    InvalidOptionError for an unknown network."""
    options = {"optimizer": optimizer, "loss": COTANGENTS, "batch_norm": "frozen"}
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "network.onnx"
        if network in zoo.light_networks():
            zoo.save(network, path, batch=samples)
        else:
            zoo.blueprint(network, batch=samples).save_hollow(path)
        step = train_graph(path, StepSettings.from_json(options)).step
    return PlannableStep(plannable(step.graph), StepLayout(step.description, step.outputs))

"""Training steps of users, as graphs to be planned."""

from __future__ import annotations

from dataclasses import dataclass

from superopt.axioms import load_axioms
from superopt.errors import InvalidOptionError
from superopt.onnx_io import LiftedModel, ModelSource, lift, load_model
from superopt.onnx_io.changes.freezing import open_axes
from superopt.optimizer.parallel.licences import by_axioms
from superopt.optimizer.parallel.search.subject import plannable
from superopt.optimizer.parallel.simulator.prices import Prices
from superopt.optimizer.parallel.strategies.plans import StrategyPlanner
from superopt.optimizer.parallel.topology import Cluster
from superopt.optimizer.parallel.training_plans.states import StepLayout


@dataclass(frozen=True)
class LiftedStep:
    """A training step as a graph, and what its inputs and outputs are."""

    lifted: LiftedModel
    layout: StepLayout

    @staticmethod
    def of(model: ModelSource) -> LiftedStep:
        """Raises InvalidOptionError for a model that is no training step, or one with open sizes."""
        source = load_model(model)
        layout = StepLayout.of(source.proto, source.name)
        if layout is None:
            raise InvalidOptionError(
                f"{source.name}: expected a training step, as superopt train-graph writes it, got another "
                "model"
            )
        names = ", ".join(dict.fromkeys(axis.name for axis in open_axes(source)))
        if names:
            raise InvalidOptionError(
                f"{source.name}: expected a step of known sizes, got open ones: {names}; give them when it "
                "is built, with `superopt train-graph --freeze NAME=SIZE`"
            )
        return LiftedStep(lift(source), layout)

    def planner(self, cluster: Cluster) -> StrategyPlanner:
        """The planner on a cluster. Operations are divided as axioms permit, or else as they declare."""
        licence = by_axioms(load_axioms().equations).allow
        return StrategyPlanner(plannable(self.lifted.graph), self.layout, Prices(cluster), licence)

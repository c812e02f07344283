"""Training steps: ``train_graph`` builds one, ``train`` runs one on samples, ``Step`` is a loaded one."""

from superopt.journeys.training import StepGraph, train_graph
from superopt.optimizer.training.checkpoint import EverySeconds, EverySteps
from superopt.optimizer.training.description import Role, State, StepDescription
from superopt.optimizer.training.loop import TrainingProgress, TrainingResult, train
from superopt.optimizer.training.running import DataInput, Step
from superopt.step_options import LossSettings, ModelSettings, StepSettings, UpdateSettings

__all__ = [
    "DataInput",
    "EverySeconds",
    "EverySteps",
    "LossSettings",
    "ModelSettings",
    "Role",
    "State",
    "Step",
    "StepDescription",
    "StepGraph",
    "StepSettings",
    "TrainingProgress",
    "TrainingResult",
    "UpdateSettings",
    "train",
    "train_graph",
]

"""Training steps: ``train_graph`` builds one, ``train`` runs one on samples, ``Step`` is a loaded one."""

from superopt.journeys.training import StepGraph, settings_from, train_graph
from superopt.optimizer.training.checkpoint import EverySeconds, EverySteps
from superopt.optimizer.training.description import Role, State, StepDescription
from superopt.optimizer.training.loop import TrainingProgress, TrainingResult, train
from superopt.optimizer.training.running import DataInput, Step
from superopt.optimizer.training.settings import LossSettings, UpdateSettings
from superopt.optimizer.training.step import ModelSettings, StepSettings

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
    "settings_from",
    "train",
    "train_graph",
]

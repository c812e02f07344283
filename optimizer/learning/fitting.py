"""Fit a graph network to values or to an order, by a training step of superopt in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from superopt.axioms import load_axioms
from superopt.optimizer.learning.graphs import FeatureGraph, Scaling, batch_of
from superopt.optimizer.learning.network import CONSTANT, LOSS, Floats, GraphNetwork
from superopt.optimizer.learning.trained import TrainedNetwork
from superopt.optimizer.training.loop import train
from superopt.optimizer.training.running import Step
from superopt.optimizer.training.step import build_step
from superopt.step_options import MEAN_ABSOLUTE, StepSettings

if TYPE_CHECKING:
    import onnx

_BATCH = 64
_RATE = 3e-3


@dataclass(frozen=True)
class Course:
    """How long to train: steps, each of a batch of ``batch`` samples, with a learning rate that falls from
    ``rate`` to 1 % of it along a cosine. Equal seeds give equal weights."""

    steps: int
    batch: int = _BATCH
    rate: float = _RATE
    seed: int = 0
    decay: float = 1e-4

    def settings(self, loss: str) -> StepSettings:
        """The settings of the training step."""
        return StepSettings.from_json(
            {
                "optimizer": "adamw",
                "loss": loss,
                "learning_rate": self.rate,
                "weight_decay": self.decay,
                "clip_norm": 1.0,
                "schedule": f"cosine:warmup={max(1, self.steps // 20)},total={self.steps},end=0.01",
                "frozen": [CONSTANT] if loss == LOSS else [],
            }
        )


def fitted_to_values(
    network: GraphNetwork,
    graphs: Sequence[FeatureGraph],
    values: Sequence[float],
    course: Course,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> TrainedNetwork:
    """The network that gives such values to such graphs, by the least mean absolute difference."""
    scaling = Scaling.of(graphs)
    data = {**batch_of(graphs, scaling), "targets": np.asarray(values, np.float32)[:, np.newaxis]}
    vertices = data["present"].shape[1]
    model = network.trained_on_values(course.batch, vertices, course.seed)
    return TrainedNetwork(network, scaling, _trained(model, MEAN_ABSOLUTE, data, course, progress))


def fitted_to_pairs(
    network: GraphNetwork,
    graphs: Sequence[FeatureGraph],
    pairs: Sequence[tuple[int, int]],
    course: Course,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> TrainedNetwork:
    """The network that gives the first graph of each pair, by number, a lower value than the second."""
    scaling = Scaling.of(graphs)
    chosen = np.asarray(pairs)
    data = {name: array[chosen] for name, array in batch_of(graphs, scaling).items()}
    vertices = data["present"].shape[2]
    model = network.trained_on_pairs(course.batch, vertices, course.seed)
    return TrainedNetwork(network, scaling, _trained(model, LOSS, data, course, progress))


def _trained(
    model: onnx.ModelProto,
    loss: str,
    data: Mapping[str, Floats],
    course: Course,
    progress: Callable[[int, int], None],
) -> Mapping[str, Floats]:
    """The weights after the course. Data of fewer samples than a batch is repeated."""
    count = len(next(iter(data.values())))
    if count < course.batch:
        again = np.arange(course.batch) % count
        data = {name: array[again] for name, array in data.items()}
    step = Step(build_step(model, course.settings(loss), load_axioms().adjoints).model.to_bytes(), threads=1)
    train(
        step,
        data,
        steps=course.steps,
        batch_size=course.batch,
        seed=course.seed,
        progress=lambda told: progress(told.step, told.steps),
    )
    return {name: np.array(array, np.float32) for name, array in step.parameters().items()}

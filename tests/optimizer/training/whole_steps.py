"""Losses of whole training steps against the same training in plain JAX, in float32.

``python -m tests.optimizer.training.whole_steps --steps 100`` prints the largest relative difference of the
losses for every network and optimiser.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import onnx

from superopt import zoo
from superopt.journeys.training import train_graph
from superopt.optimizer.training.description import Role
from superopt.optimizer.training.running import Step
from superopt.step_options import ModelSettings, StepSettings, UpdateSettings
from superopt.zoo import datasets
from tests.optimizer.training.jax_onnx import CHANGES, Array, JaxTraining, Moments, State

BATCH = 8
LIMIT = 1e-4
"""The largest relative difference of two losses."""

RATES: Mapping[str, float] = {
    "sgd": 0.05,
    "momentum": 0.005,
    "nesterov": 0.005,
    "adam": 0.001,
    "adamw": 0.001,
    "adagrad": 0.005,
    "rmsprop": 0.0005,
}

Batch = Mapping[str, Array]


@dataclass(frozen=True)
class Network:
    """A light network, the output whose cross-entropy is minimised, and its samples.

    In a ``sensitive`` one the last digits soon decide about losses: the last layers of the residual network
    normalise batches of 8 images of one pixel. Then JAX continues from the states of the step after every
    update, so that a loss tells about one update, and one loss in ten does not count: where the argument of a
    relu is 0 but for rounding, one of both lets the gradient through, which is 1% of an update."""

    name: str
    output: str
    samples: Callable[[int], Batch]
    sensitive: bool = False


def _sentences(count: int) -> Batch:
    random = np.random.default_rng(5)
    return {
        "input_ids": random.integers(0, 100, (count, 32)),
        "attention_mask": (np.arange(32) < random.integers(8, 33, (count, 1))).astype(np.int64),
        "token_type_ids": random.integers(0, 2, (count, 32)),
        "labels": random.integers(0, 128, count),
    }


def _characters(count: int) -> Batch:
    random = np.random.default_rng(6)
    states = {name: np.zeros((count, 32), np.float32) for name in ("h0", "c0", "h1", "c1")}
    tokens = random.integers(0, 128, (count, 8))
    return {"tokens": tokens, "labels": (tokens + 1) % 128, **states}


NETWORKS: Mapping[str, Network] = {
    network.name: network
    for network in (
        Network("light-mlp", "dense_2.biased", datasets.digits),
        Network("light-resnet18", "output", datasets.images, sensitive=True),
        Network("light-bert", "pooler_output", _sentences),
        Network("light-lstm-lm", "decoder.out", _characters),
    )
}


@lru_cache
def _model(name: str) -> onnx.ModelProto:
    return zoo.blueprint(name, batch=BATCH).model(seed=0)


@lru_cache
def _jax(name: str, trained: tuple[str, ...]) -> JaxTraining:
    return JaxTraining(_model(name), NETWORKS[name].output, trained)


def difference(name: str, optimizer: str, steps: int) -> float:
    """The largest relative difference of the losses of a number of steps that count."""
    network = NETWORKS[name]
    rate, change = RATES[optimizer], CHANGES[optimizer]
    settings = StepSettings(
        ModelSettings(prediction=network.output, dropout="off"),
        update=UpdateSettings(optimizer, learning_rate=rate),
    )
    step = Step(train_graph(_model(name), settings).step.model.to_bytes(), threads=1)
    training = _jax(name, tuple(step.parameters()))
    state = State(training.initial, {})
    differences: list[float] = []
    for batch in _batches(network.samples(BATCH * min(steps, 10)), steps):
        expected = training.loss(state.parameters, batch)
        if network.sensitive:
            state = replace(state, parameters=step.parameters(), moments=_moments(step))
        differences.append(abs(step.run(batch) - expected) / abs(expected))
        state = training.updated(state, batch, change, rate)
    left_out = steps // 10 if network.sensitive else 0
    return sorted(differences)[-1 - left_out]


def _moments(step: Step) -> Mapping[str, Moments]:
    """What the optimiser of a step keeps of each parameter."""
    kept = {(state.of, state.role): step.states[state.input].copy() for state in step.description.states}
    return {
        name: Moments(kept.get((name, Role.MOMENT), 0.0), kept.get((name, Role.SECOND_MOMENT), 0.0))
        for name in step.parameters()
    }


def _batches(samples: Batch, steps: int) -> Iterator[Batch]:
    """Batches in order, again from the beginning when the samples are used up."""
    count = len(samples["labels"]) // BATCH
    for index in range(steps):
        at = index % count * BATCH
        yield {name: array[at : at + BATCH] for name, array in samples.items()}


def main() -> int:
    """Runs the command; the exit code is 1 if any difference is too large."""
    parser = argparse.ArgumentParser(description="Compare the losses of whole steps with JAX's.")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--network", choices=[*NETWORKS], action="append")
    given = parser.parse_args()
    code = 0
    for name in given.network or NETWORKS:
        for optimizer in RATES:
            largest = difference(name, optimizer, given.steps)
            sys.stdout.write(f"{name:16} {optimizer:10} {largest:.1e}\n")
            sys.stdout.flush()
            code = code or int(largest > LIMIT)
    return code


if __name__ == "__main__":
    sys.exit(main())

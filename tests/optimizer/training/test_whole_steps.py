"""Whole steps of networks have the losses of the same training in plain JAX, under every optimiser."""

from __future__ import annotations

import pytest

pytest.importorskip("jax")

from tests.optimizer.training.whole_steps import LIMIT, RATES, difference

STEPS = 10


@pytest.mark.parametrize("optimizer", RATES)
def test_losses_of_a_perceptron(optimizer: str) -> None:
    assert difference("light-mlp", optimizer, STEPS) < LIMIT


@pytest.mark.parametrize(
    ("name", "optimizer"),
    [("light-resnet18", "momentum"), ("light-bert", "adamw"), ("light-lstm-lm", "adam")],
)
def test_losses_of_deep_networks(name: str, optimizer: str) -> None:
    assert difference(name, optimizer, STEPS) < LIMIT

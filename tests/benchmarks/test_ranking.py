"""``python -m benchmarks ranking``: the ranking that ships, and one that is trained here."""

from __future__ import annotations

import math

from benchmarks.plans import ranking
from benchmarks.plans.ranking import STEPS, TESTED, Ranked, learned, strategies
from superopt.optimizer.learning.fitting import Course
from superopt.optimizer.parallel.strategies.builders import BUILDERS
from superopt.optimizer.parallel.strategies.ranking import Ranking, ordered_share, shipped_network

STEP = "light-vgg16:32:b7"


def _accuracy(model: Ranking, own: list[Ranked]) -> float:
    found = model.accuracy([one.graph for one in own], [one.microseconds for one in own])
    assert found is not None
    return found


def test_the_ranking_that_ships_orders_strategies_of_a_network_that_it_has_not_seen() -> None:
    assert STEP not in STEPS
    assert not set(TESTED) & set(STEPS)
    own = strategies(STEP, 12, 0)
    assert len(own) == len(BUILDERS) + 12
    assert _accuracy(Ranking(), own) > 0.75
    assert ranking.tested(STEP, own, shipped_network()).startswith(f"| {STEP} | 20 | ")
    graphs, times = [one.graph for one in own], [one.microseconds for one in own]
    assert Ranking().fidelity(graphs, times) in (-math.inf, *Ranking().scores(graphs))


def test_a_ranking_learns_the_order_of_the_strategies_that_it_is_given() -> None:
    own = strategies("light-mlp:64:b3", 12, 0)
    trained = Ranking(learned([own], Course(300, batch=16)))
    before = Ranking(learned([own], Course(2, batch=16)))
    assert _accuracy(trained, own) > max(0.95, _accuracy(before, own))


def test_equal_times_have_no_order() -> None:
    assert ordered_share([1.0, 2.0], [5.0, 5.0]) is None

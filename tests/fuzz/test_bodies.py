"""Models of random If, Loop and Scan nodes compute the same when every body is rewritten."""

from __future__ import annotations

import onnx
import pytest

from superopt.journeys.in_process import verified_substitutions
from superopt.optimizer.search import RuleSet
from superopt.substitution_db import open_database
from tests.conftest import WithLibrary
from tests.fuzz.bodies import difference, feeds_of, random_body_model, rewritten_at_whim

SEEDS = range(40)


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory, with_library: WithLibrary) -> RuleSet:
    with open_database(with_library(tmp_path_factory.mktemp("bodies") / "rules.db")) as opened:
        return RuleSet(verified_substitutions(opened))


def test_models_with_rewritten_bodies_compute_the_same(rules: RuleSet) -> None:
    found: dict[int, str] = {}
    changed = 0
    for seed in SEEDS:
        model = random_body_model(seed)
        if model is None:
            continue
        written, count = rewritten_at_whim(model, rules, seed)
        changed += count
        onnx.checker.check_model(onnx.load_from_string(written))  # pyright: ignore[reportUnknownMemberType]
        given = model.SerializeToString()
        found[seed] = difference(given, written, feeds_of(given))
    assert not {seed: wrong for seed, wrong in found.items() if wrong}
    assert changed > 2 * len(SEEDS)

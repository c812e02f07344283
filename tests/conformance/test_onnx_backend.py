"""Every case of ONNX's backend suite that plain ONNX Runtime passes must pass after a transformation, too.

The searches run on a sample of the cases; ``SUPEROPT_ALL_CASES=1`` runs them on all.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence

import pytest

from superopt.journeys.in_process import verified_substitutions
from superopt.optimizer.cost import MemoryCostStore
from superopt.rewriting import Substitution
from superopt.substitution_db import open_database
from tests.conformance.backend import Level, Suite, Transform
from tests.conformance.rewriting import Optimised, Rewritten
from tests.conformance.whole import Whole
from tests.conftest import WithLibrary
from tests.onnx_io import forcing
from tests.samples import sample

TRANSFORMS: dict[str, Transform] = {
    "lifted and lowered": forcing.written_as_it_was,
    "every liftable node written anew": forcing.written_anew,
    "every other node written anew": forcing.every_other_node_written_anew,
}

EXPECTED_AT_LEAST = 1700


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Suite]:
    """The suite, its real networks unpacked into a directory of the test run."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        patch.setenv("ONNX_MODELS", str(tmp_path_factory.mktemp("onnx-models")))
        warnings.simplefilter("ignore")  # numpy, where the suite's own definitions overflow
        yield Suite()


@pytest.fixture(scope="module")
def baseline(suite: Suite) -> tuple[str, ...]:
    """The cases that ONNX Runtime passes by itself."""
    passed = tuple(outcome.case for outcome in suite.run(suite.names, bytes) if outcome.passed)
    print(f"plain ONNX Runtime passes {len(passed)} of {len(suite.names)} cases")  # noqa: T201
    assert len(passed) >= EXPECTED_AT_LEAST
    return passed


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory, with_library: WithLibrary) -> tuple[Substitution, ...]:
    """The substitutions of the shipped library."""
    with open_database(with_library(tmp_path_factory.mktemp("library") / "rules.db")) as database:
        found = verified_substitutions(database)
    assert found, "no rule of the shipped library is verified under the present sources"
    return found


ILL_CONDITIONED = ("test_squeezenet_cpu",)
"""A softmax of a thousand equal numbers of 10^10: another order of additions decides what comes out."""


@pytest.mark.parametrize("name", TRANSFORMS)
def test_every_case_that_the_runtime_passes_still_passes(
    suite: Suite, baseline: tuple[str, ...], name: str
) -> None:
    require_all(suite, baseline, name, TRANSFORMS[name])


def test_cases_pass_in_canonical_form(suite: Suite, baseline: tuple[str, ...]) -> None:
    """One case in two; all with ``SUPEROPT_ALL_CASES=1``."""
    require_all(suite, sample(baseline, 2), "canonical", forcing.canonical)


def test_cases_pass_when_optimised(
    suite: Suite, baseline: tuple[str, ...], rules: tuple[Substitution, ...]
) -> None:
    """One case in two; all with ``SUPEROPT_ALL_CASES=1``."""
    require_all(suite, sample(baseline, 2), "optimised", Optimised(rules))


def test_some_cases_pass_after_the_whole_main_job(
    suite: Suite, baseline: tuple[str, ...], rules: tuple[Substitution, ...]
) -> None:
    """All of them: ``python -m tests.conformance``."""
    whole = Whole(rules, MemoryCostStore(), budget=1.0)
    require_all(suite, baseline[::97], "after the main job", whole)
    assert not whole.failures


def test_cases_pass_with_rules_applied_at_random(
    suite: Suite, baseline: tuple[str, ...], rules: tuple[Substitution, ...]
) -> None:
    """One case in three; all with ``SUPEROPT_ALL_CASES=1``.

    As the models say: fusions of the runtime are wrong on some that nobody would write, and those are not
    ours to find, as whatever the optimizer returns was run beside the original."""
    rewritten = Rewritten(rules)
    sound = sample([case for case in baseline if case not in ILL_CONDITIONED], 3)
    require_all(suite, sound, "rewritten at random", rewritten, Level.ORT_DISABLE_ALL)
    assert rewritten.applied > len(sound) / 20


def require_all(
    suite: Suite,
    baseline: Sequence[str],
    name: str,
    transform: Transform,
    level: Level = Level.ORT_ENABLE_ALL,
) -> None:
    """Every case of the baseline passes with its model transformed."""
    failed = [outcome for outcome in suite.run(baseline, transform, level) if not outcome.passed]
    print(f"{name}: {len(baseline) - len(failed)} of {len(baseline)} cases pass")  # noqa: T201
    report = "\n".join(f"{outcome.case}: {outcome.message}" for outcome in failed[:10])
    assert not failed, f"{len(failed)} cases fail: {[outcome.case for outcome in failed]}\n{report}"

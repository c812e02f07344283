"""Cost profiles: written, read, searched with, refused."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from superopt.errors import InvalidFileError, MissingServiceError
from superopt.ops.elementwise.activation import Relu
from superopt.ops.matrix import Matmul
from superopt.optimizer import Measured, Options, Pipeline, Request
from superopt.optimizer.cost import (
    CostProfile,
    GraphCost,
    Latency,
    MemoryCostStore,
    Provider,
    Recorded,
    Sizes,
    Target,
    objective_of,
    profile_of,
    read_profile,
)
from superopt.optimizer.cost.roofline import recorded_roofline
from superopt.optimizer.cost.runtime.session import LoadedModel
from superopt.optimizer.pipeline.reporting.report import MemorySummary, Report
from tests.optimizer.graphs import Builder, dense_blocks
from tests.optimizer.models import lifted, model_of
from tests.optimizer.rules import ASSOCIATIVE, BIAS_INTO_AFFINE, SCALE_INTO_AFFINE, rules


@pytest.fixture(scope="module")
def measured() -> tuple[Latency, GraphCost]:
    objective = Latency(MemoryCostStore(), threads=1)
    graph = dense_blocks(2)
    return objective, GraphCost.of(graph, objective, Sizes(graph, {}))


@pytest.fixture(scope="module")
def distant(measured: tuple[Latency, GraphCost]) -> CostProfile:
    profile = profile_of(measured[0], Provider.CPU, "2026-11-21")
    return dataclasses.replace(profile, device="Distant Device 9000 (rev. 2)")


def test_a_profile_survives_its_file(distant: CostProfile, tmp_path: Path) -> None:
    path = tmp_path / "distant.jsonl"
    distant.write(path)
    assert read_profile(path) == distant
    assert distant.name == "distant-device-9000-rev.-2"


def test_recorded_costs_are_those_that_were_measured(
    distant: CostProfile, measured: tuple[Latency, GraphCost]
) -> None:
    cost = measured[1]
    recorded = objective_of("latency", MemoryCostStore(), 1, Target.of_profile(distant))
    assert isinstance(recorded, Recorded)
    for priced in cost.groups:
        assert recorded.price(priced.kernel).cost == pytest.approx(priced.price.cost, abs=0.01)
        assert recorded.price(priced.kernel).blocked == priced.price.blocked
    assert recorded.found == {priced.kernel for priced in cost.groups}


def test_what_was_not_recorded_is_priced_by_the_peaks_and_by_what_was(distant: CostProfile) -> None:
    entries = tuple(dataclasses.replace(e, us=3 * e.analytic_us) for e in distant.entries)
    target = Target.of_profile(dataclasses.replace(distant, entries=entries))
    recorded = objective_of("latency", MemoryCostStore(), 1, target)
    assert isinstance(recorded, Recorded)
    b = Builder()
    graph = b.graph(b.add(Relu(), b.add(Matmul(), b.input("x", 64, 32), b.weight(32, 48))))
    (priced,) = GraphCost.of(graph, recorded, Sizes(graph, {})).groups
    roofline = recorded_roofline(MemoryCostStore(distant.costs()), distant.prefix)
    assert roofline is not None
    assert priced.price.cost == pytest.approx(3 * roofline.microseconds(priced.kernel), rel=0.01)
    assert priced.kernel not in recorded.found


def test_a_search_for_an_absent_device_says_so(distant: CostProfile) -> None:
    options = Options(budget=20.0, threads=1, samples=1)
    known = rules(SCALE_INTO_AFFINE, BIAS_INTO_AFFINE)
    target = Target.of_profile(distant)
    report = (
        Pipeline(Request(lifted(dense_blocks(2)), known, options), Measured(MemoryCostStore(), target))
        .run()
        .report
    )
    assert (report.cost.source, report.measured, report.returned) == ("profile", None, "optimized")
    assert report.cost.after < report.cost.before
    assert report.equivalence.passed
    assert report.why == (
        "equal; cheaper by the recorded costs of distant-device-9000-rev.-2, where it could not be timed"
    )


def test_a_limit_of_memory_is_kept_or_the_original_returned() -> None:
    """The first product needs 256 KiB; the other order of the products does not make it."""
    b = Builder()
    x = b.add(Matmul(), b.input("x", 256, 4), b.input("y", 4, 256))
    model = lifted(b.graph(b.add(Matmul(), x, b.weight(256, 4))))

    def reported(limit: int) -> Report:
        options = Options(budget=10.0, threads=1, samples=1, memory_limit=limit)
        return Pipeline(Request(model, rules(ASSOCIATIVE), options), Measured(MemoryCostStore())).run().report

    kept = reported(100_000)
    assert (kept.returned, kept.memory) == ("optimized", MemorySummary(278_528, 16_448, 100_000))
    missed = reported(10_000)
    assert missed.returned == "original"
    assert missed.why == "no equal graph was found within the memory limit: the best needs 16,448 bytes"


@pytest.mark.parametrize(
    ("line", "change", "message"),
    [
        (0, {"kind": "shopping list"}, "line 1: expected the head of a superopt cost profile"),
        (0, {"method": "1"}, "measured by method 1"),
        (0, {"target": "abacus"}, "line 1: expected target as one of cpu, cuda, got 'abacus'"),
        (0, {"peaks": {}}, "line 1: expected peaks"),
        (2, {"us": -1}, "line 3: expected us as a number above 0, got -1"),
        (2, {"key": None}, "line 3: expected a key"),
    ],
    ids=lambda value: str(value)[:12],
)
def test_damaged_profiles_are_refused(
    distant: CostProfile, tmp_path: Path, line: int, change: dict[str, object], message: str
) -> None:
    path = tmp_path / "damaged.jsonl"
    distant.write(path)
    lines = path.read_text().splitlines()
    lines[line] = json.dumps({**json.loads(lines[line]), **change})
    path.write_text("\n".join(lines))
    with pytest.raises(InvalidFileError, match=message):
        read_profile(path)


def has_device() -> bool:
    try:
        Latency(MemoryCostStore(), threads=1, provider=Provider.CUDA)
    except MissingServiceError:
        return False
    return True


@pytest.mark.skipif(has_device(), reason="there is a CUDA device")
def test_a_missing_device_is_said_to_be_missing() -> None:
    with pytest.raises(MissingServiceError, match=r"target cuda: .*\[gpu\]"):
        LoadedModel(model_of(dense_blocks(1)), 1, provider=Provider.CUDA)


@pytest.mark.gpu
@pytest.mark.skipif(not has_device(), reason="there is no CUDA device")
def test_kernels_are_measured_on_the_device() -> None:
    objective = Latency(MemoryCostStore(), threads=1, provider=Provider.CUDA)
    graph = dense_blocks(2)
    cost = GraphCost.of(graph, objective, Sizes(graph, {}))
    assert objective.measured == len({priced.kernel for priced in cost.groups})
    assert "processor" not in profile_of(objective, Provider.CUDA, "2026-11-21").device

"""superopt profile --collectives: T = C bytes + D fitted to measured times, and read back by --cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from superopt.cli.main import run
from superopt.errors import InvalidFileError, InvalidOptionError
from superopt.journeys.planning.collectives import MeasuredCluster, measured_cluster
from superopt.optimizer.parallel.collectives import Collectives
from superopt.optimizer.parallel.communication import CollectiveKind, CollectiveStep
from superopt.optimizer.parallel.documents.cluster import MEASURED_KINDS, load_cluster, parse_cluster
from superopt.optimizer.parallel.linear_fit import Sample, fitted

SIZES = [4096 << power for power in range(0, 14, 2)]
SLOPES = {str(kind): (number, 10.0 * number) for number, kind in enumerate(MEASURED_KINDS, 1)}
"""Nanoseconds per byte, and microseconds, of each kind."""


def _measured() -> MeasuredCluster:
    peaks = {
        "flops": 2e12,
        "half_flops": 4e12,
        "memory_bandwidth": 3e11,
        "launch": 5.5,
        "memory_bytes": 1 << 34,
    }
    samples = {
        kind: [(size, slope / 1000 * size + start) for size in SIZES]
        for kind, (slope, start) in {**SLOPES, "send": (5, 1.0)}.items()
    }
    return measured_cluster(
        {"device": "X", "platform": "gpu", "devices": 4, "jax": "0", "peaks": peaks, "samples": samples}
    )


def test_exact_times_are_recovered_and_noise_is_shown_as_residuals() -> None:
    exact = [Sample(size, 0.002 * size + 30) for size in SIZES]
    fit = fitted(exact)
    assert (fit.time.per_byte, fit.time.fixed) == pytest.approx((0.002, 30))
    assert fit.residuals == pytest.approx([0.0] * len(SIZES), abs=1e-9)
    noisy = fitted([*exact[:-1], Sample(SIZES[-1], 2 * exact[-1].microseconds)])
    assert max(map(abs, noisy.residuals[:-1])) < 0.4 < -noisy.residuals[-1]


def test_neither_part_of_the_time_is_negative() -> None:
    falling = fitted([Sample(1000, 20.0), Sample(2000, 10.0)])
    assert falling.time.per_byte == 0 < falling.time.fixed
    rising = fitted([Sample(1000, 1.0), Sample(2000, 10.0)])
    assert rising.time.fixed == 0 < rising.time.per_byte
    with pytest.raises(InvalidOptionError, match="of at least two sizes, got 2 samples"):
        fitted([Sample(1000, 1.0), Sample(1000, 2.0)])


def test_a_description_gives_the_fitted_times_to_the_simulator(tmp_path: Path) -> None:
    found, path = _measured(), tmp_path / "here.yaml"
    found.write(path)
    cluster = load_cluster(path)
    device = cluster.devices[0]
    assert (len(cluster), device.kind.flops, device.kind.launch) == (4, 2e12, 5.5)
    assert device.memory_bytes == 1 << 34
    link = cluster.link(0, 1)
    assert (link.bandwidth, link.latency) == pytest.approx((1e9 / 5, 1.0))
    collectives, size = Collectives(cluster), 1 << 20
    for kind in MEASURED_KINDS:
        slope, start = SLOPES[kind]
        cost = collectives.cost(CollectiveStep(kind, (0, 1, 2, 3), size, (), (), size))
        assert cost.microseconds == pytest.approx(slope / 1000 * size + start), kind
    some = CollectiveStep(CollectiveKind.ALL_REDUCE, (0, 1), size, (), (), size)
    assert "measured" not in collectives.cost(some).algorithm


@pytest.mark.parametrize(
    ("collectives", "sentence"),
    [
        (
            "{all-reduce: {bandwidth: 1 GB/s}}",
            "collectives.all-reduce: expected the field latency, got bandw",
        ),
        ("{all-reduce: serial}", "collectives.all-reduce: expected a measured collective, got 'serial'"),
        (
            "{all-reduce: {bandwidth: 1 GB/s, latency: 1 us}, broadcast: 3}",
            "expected one of the fields all-reduce, all-gather, reduce-scatter, all-to-all, got 'broadcast'",
        ),
    ],
)
def test_bad_times_are_refused(collectives: str, sentence: str) -> None:
    with pytest.raises(InvalidFileError, match=sentence):
        parse_cluster(f"nodes: [{{device: t4}}]\ncollectives: {collectives}", "c")


def test_collectives_of_virtual_devices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("jax")
    path = tmp_path / "here.yaml"
    words = ["profile", "--collectives", "--devices", "2", "--largest", "64 KiB", "-o", str(path)]
    assert run([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["devices"], document["platform"]) == (2, "cpu")
    assert [*document["collectives"]] == [*map(str, MEASURED_KINDS), "send"]
    cluster = load_cluster(path)
    assert cluster.collectives is not None
    for kind in MEASURED_KINDS:
        own = document["collectives"][kind]
        assert [one["bytes"] for one in own["samples"]] == [
            size // 2 if kind is CollectiveKind.ALL_TO_ALL else size for size in (4096, 16384, 65536)
        ]
        time = cluster.collectives.time(kind)
        assert time is not None
        for one in own["samples"]:
            predicted = own["us_per_byte"] * one["bytes"] + own["us"]
            assert one["residual"] == pytest.approx(predicted / one["us"] - 1, abs=2e-3)
        assert time.fixed == pytest.approx(own["us"], abs=1e-3)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--collectives", "--devices", "1"), 2, "devices: expected from 2 to 4096, got 1"),
        (
            ("--collectives", "--largest", "3"),
            2,
            "largest: expected a size such as 80 GiB, with its unit, got '3'",
        ),
        (("--collectives", "--largest", "3 B"), 2, "largest: expected from 16 KiB to 4 GiB, got 3 B"),
        (("--collectives", "--threads", "2"), 2, "--threads: expected without --collectives"),
        (("--devices", "2"), 2, "--devices: expected with --collectives only"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_bad_input_is_one_sentence(
    words: tuple[str, ...], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["profile", *words]) == code
    assert message in capsys.readouterr().err

"""The learned estimator of kernels: what ships, how it is fitted, written, read, and used as a price."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from superopt.cli.main import run
from superopt.errors import InvalidFileError, InvalidOptionError
from superopt.optimizer.fusion.joint.plans import plan_of
from superopt.optimizer.fusion.joint.problem import Problem
from superopt.optimizer.fusion.joint.state import Joint
from superopt.optimizer.fusion.joint.streams import timed
from superopt.optimizer.fusion.learned.estimator import (
    ErrorDistribution,
    KernelEstimator,
    Origin,
    estimator_names,
    named_estimator,
    read_estimator,
)
from superopt.optimizer.fusion.learned.fitting import fitted_estimator
from superopt.optimizer.fusion.learned.samples import kernels
from superopt.optimizer.learning.fitting import Course
from superopt.optimizer.parallel.documents.cluster import load_cluster, parse_cluster
from superopt.optimizer.parallel.experts import experts
from superopt.optimizer.parallel.search.mesh import Mesh
from superopt.optimizer.parallel.simulator import ParallelObjective, Simulator
from superopt.optimizer.parallel.tasks import KernelTask
from superopt.optimizer.parallel.training_plans.sharded_states import DDP
from tests.optimizer.parallel.fusions import small_step

ORIGIN = Origin("here", "0", "2026-01-01", ("light-mlp:8:momentum",))
DESCRIPTION = """
nodes: [{{devices: 2, memory: 1 GiB, link: {{bandwidth: 1 GB/s, latency: 9 us}},
         device: {{flops: 1 TFLOP/s, memory_bandwidth: 10 GB/s, estimator: {estimator}}}}}]
"""


@cache
def _kernels() -> tuple[KernelTask, ...]:
    step = small_step()
    return tuple(kernels(step.graph, step.states, 0))


def _assumed(kernel: KernelTask) -> float:
    """Microseconds that a network can learn: a start, and something for each element of each result."""
    return 5.0 + sum(task.outputs[0].elements / 50 for task in kernel.tasks)  # type: ignore[operator]


@cache
def _estimator() -> KernelEstimator:
    found = _kernels()
    return fitted_estimator(found, [_assumed(one) for one in found], ORIGIN, (8, 1), Course(1000, batch=16))


def test_sampled_kernels_differ_and_many_are_groups() -> None:
    found = _kernels()
    assert len(set(found)) == len(found) > 50
    sizes = [len(kernel.tasks) for kernel in found]
    assert min(sizes) == 1
    assert max(sizes) > 4
    assert all(kernel.results for kernel in found)


def test_errors_are_those_of_kernels_that_were_not_learned_from() -> None:
    errors = _estimator().errors
    assert errors["all"].kernels == round(0.2 * len(_kernels()))
    assert errors["all"].quantiles["50"] < 0.15
    assert errors["groups"].kernels < errors["all"].kernels


def test_a_distribution_of_errors() -> None:
    measured = np.full(4, 100, np.float32)
    found = ErrorDistribution.of(np.array([100, 109, 112, 150], np.float32), measured)
    assert (found.kernels, found.within_10, found.within_14) == (4, 0.5, 0.75)
    assert found.quantiles["50"] == pytest.approx(0.105, abs=1e-3)


def test_an_estimator_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "own.json"
    _estimator().write(path)
    again = read_estimator(path)
    assert (again.origin, again.errors) == (ORIGIN, _estimator().errors)
    for kernel in _kernels()[:20]:
        assert again.microseconds(kernel) == pytest.approx(_estimator().microseconds(kernel), rel=1e-4)


def test_the_estimator_prices_kernels_of_a_plan(tmp_path: Path) -> None:
    """In the simulator as in joint fusion, single operators and groups alike."""
    _estimator().write(tmp_path / "own.json")
    path = tmp_path / "c.yaml"
    path.write_text(DESCRIPTION.format(estimator="own.json"))
    cluster, step = load_cluster(path), small_step()
    plan = next(one.plan for one in experts(step.subject, Mesh.of(cluster)) if one.name == DDP)
    simulator = Simulator(step.graph, cluster, ParallelObjective.LATENCY, step=step.states)
    problem = Problem.of(simulator.simulate(plan))
    joint = Joint.unfused(problem)
    estimator = cluster.devices[0].kind.estimator
    assert estimator is not None
    single = next(node for node in joint.nodes.values() if node.takes_time)
    task = problem.model.task(single.kernel.members, [(single.owned[0], 0)])
    assert single.kernel.microseconds == pytest.approx(estimator.microseconds(task), abs=1e-3)
    reader, producer = next(
        (head, other)
        for head in joint.nodes
        for other in joint.producers(head)
        if joint.saves(head, other) > float("-inf") and joint.nodes[other].takes_time
    )
    members = {*joint.nodes[reader].kernel.members, *joint.nodes[producer].kernel.members}
    assert joint.fuse(reader, producer)
    fused = next(node for node in joint.nodes.values() if {*node.kernel.members} == members)
    written = problem.model.written(fused.kernel.members, (), problem.readers)
    group = problem.model.task(fused.kernel.members, written)
    assert fused.kernel.microseconds == pytest.approx(estimator.microseconds(group), abs=1e-3)
    assert timed(joint).microseconds == simulator.simulate(plan_of(joint)).microseconds


def test_the_estimator_that_ships_says_what_it_was_measured_on_and_how_well_it_does() -> None:
    assert estimator_names() == ("xla-cpu",)
    found = named_estimator("xla-cpu")
    assert found.errors["all"].kernels >= 500
    assert found.origin.device
    assert len(found.origin.steps) >= 12
    cluster = parse_cluster(DESCRIPTION.format(estimator="xla-cpu"), "c")
    assert cluster.devices[0].kind.estimator is found
    assert 5 < found.microseconds(_kernels()[0]) < 1000


def _changed(**changes: object) -> str:
    own = {"kind": "superopt kernel estimator", **changes}
    return json.dumps(own)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", "estimator: the document: Invalid JSON"),
        (_changed(), "estimator: origin: Field required"),
        (_changed(kind="another"), "estimator: kind: Input should be 'superopt kernel estimator'"),
    ],
)
def test_a_damaged_file_is_one_sentence(content: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text(content)
    with pytest.raises(InvalidFileError, match=sentence):
        read_estimator(path)


def test_other_weights_than_the_sizes_ask_for_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "own.json"
    _estimator().write(path)
    document = json.loads(path.read_text())
    document["network"]["width"] = 9
    path.write_text(json.dumps(document))
    with pytest.raises(InvalidFileError, match="estimator: weights: expected"):
        read_estimator(path)


def test_descriptions_name_what_is_wrong_with_an_estimator(tmp_path: Path) -> None:
    with pytest.raises(InvalidFileError, match=r"estimator: expected one of xla-cpu, or an estimator's file"):
        parse_cluster(DESCRIPTION.format(estimator="tpu"), "c")
    with pytest.raises(InvalidFileError, match="expected an estimator that needs no file"):
        parse_cluster(DESCRIPTION.format(estimator="own.json"), "c")
    path = tmp_path / "c.yaml"
    path.write_text(DESCRIPTION.format(estimator="missing.json"))
    with pytest.raises(InvalidFileError, match=r"missing\.json: cannot be read as an estimator"):
        load_cluster(path)


def test_too_few_kernels_are_refused() -> None:
    with pytest.raises(InvalidOptionError, match="kernels: expected at least 50 to learn from, got 3"):
        fitted_estimator(_kernels()[:3], [1.0, 2.0, 3.0], ORIGIN)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--estimator",), "output: --estimator needs a file that ends in .json"),
        (("--estimator", "-o", "x.yaml"), "output: expected a path that ends in .json, got x.yaml"),
        (("--estimator", "-o", "x.json", "--kernels", "3"), "kernels: expected at least 50, got 3"),
        (("--estimator", "-o", "x.json", "--models", "mlp:3"), "models: expected NETWORK:SAMPLES:OPTIMIZER"),
        (("--estimator", "--collectives"), "--collectives: expected without --estimator"),
        (("--kernels", "60"), "--kernels: expected with --estimator only"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_bad_input_is_one_sentence(
    words: tuple[str, ...],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["profile", *words]) == 2
    assert message in capsys.readouterr().err


def test_kernels_are_measured_and_learned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("jax")
    path = tmp_path / "own.json"
    words = ["profile", "--estimator", "--models", "light-mlp:8:sgd", "--kernels", "50", "-o", str(path)]
    assert run([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    found = read_estimator(path)
    assert document["errors"]["all"]["kernels"] == found.errors["all"].kernels == 10
    assert found.origin.steps == ("light-mlp:8:sgd",)
    assert 1 < found.microseconds(_kernels()[0]) < 10_000

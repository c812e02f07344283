"""Strategies of AutoDist: every builder's plan trains as one device does, and sends what was foretold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from superopt import zoo
from superopt.errors import InvalidOptionError
from superopt.ir.graph import Graph
from superopt.ir.plan import Plan
from superopt.journeys.planning.plannable_steps import network_step
from superopt.onnx_io import build_model
from superopt.ops.elementwise.activation import Relu
from superopt.ops.images.convolution import Conv
from superopt.ops.matrix import Matmul
from superopt.ops.shape import Reshape
from superopt.optimizer.parallel.communication import CollectiveKind
from superopt.optimizer.parallel.documents.cluster import parse_cluster
from superopt.optimizer.parallel.simulator import Simulation
from superopt.optimizer.parallel.simulator.prices import Prices
from superopt.optimizer.parallel.strategies.auto import AutoStrategy, Effort, simulated
from superopt.optimizer.parallel.strategies.builders import (
    BUILDERS,
    Setting,
    build,
    smallest_divisor,
    smallest_non_divisor,
)
from superopt.optimizer.parallel.strategies.model import (
    Collective,
    Compressor,
    Part,
    Server,
    Strategy,
    VariableSync,
)
from superopt.optimizer.parallel.strategies.plans import StrategyPlanner
from superopt.optimizer.parallel.strategies.sampling import EVERY_ASPECT, Aspect
from superopt.optimizer.parallel.strategies.variables import DeviceNames, serves_rows
from superopt.optimizer.parallel.topology import Cluster
from superopt.options import OPTIONS
from tests.optimizer.graphs import Builder
from tests.optimizer.parallel.explicit_steps import ExplicitStep, explicit_step
from tests.optimizer.parallel.networks import devices
from tests.optimizer.parallel.random_plans import random_arrays
from tests.optimizer.parallel.simulated import cluster

STEPS = 2
CHUNK = 3


def _one_and_four() -> Cluster:
    return parse_cluster(
        """
nodes:
  - {device: t4}
  - {device: t4, devices: 4, link: {bandwidth: 16 GB/s, latency: 5 us}}
network: {bandwidth: 25 Gb/s, latency: 15 us, flow: 10 Gb/s}
""",
        "1 + 4",
    )


def _convolutions(batch: int) -> Graph:
    b = Builder()
    x = b.input("x", batch, 3, 6, 6)
    x = b.add(Relu(), b.add(Conv(padding="same"), x, b.weight(8, 3, 3, 3)))
    x = b.add(Relu(), b.add(Conv(padding="same"), x, b.weight(5, 8, 3, 3)))
    return b.graph(b.add(Matmul(), b.add(Reshape((batch, 180)), x), b.weight(180, 7)))


@cache
def _step(name: str, optimizer: str, batch: int) -> ExplicitStep:
    if name == "convolutions":
        graph = _convolutions(batch)
        return explicit_step(build_model(graph, random_arrays(graph)), optimizer)
    loss = "cross-entropy" if name == "light-mlp" else "cotangents"
    return explicit_step(zoo.build(name, batch=batch), optimizer, loss)


def _planner(step: ExplicitStep, machine: Cluster) -> StrategyPlanner:
    return StrategyPlanner(step.graph, step.layout, Prices(machine))


def _built(name: str, planner: StrategyPlanner) -> Strategy:
    return build(name, planner.variables, Setting(planner.cluster, CHUNK))


def check(step: ExplicitStep, planner: StrategyPlanner, strategy: Strategy) -> Simulation:
    """Executes some steps by the strategy: losses, bytes sent, and the peak of each device."""
    planned = planner.planned(strategy)
    foretold = simulated(planned, planner)
    own = step.by_strategy(planned)
    losses = step.losses(Plan(), STEPS)
    np.testing.assert_allclose(own.losses(planned.plan, STEPS), losses, rtol=1e-5, err_msg=strategy.identity)
    executed = own.executed(planned.plan, foretold.order)
    assert executed.moved_bytes == foretold.communication_bytes, strategy.identity
    peaks = tuple(executed.peaks.get(device, 0) for device in range(len(planner.cluster)))
    assert peaks == foretold.memory_bytes, strategy.identity
    return foretold


@pytest.mark.parametrize(
    ("name", "optimizer", "batch", "machine"),
    [
        ("light-mlp", "adam", 6, devices(3)),
        ("light-mlp", "sgd", 1, devices(2)),
        ("light-ncf", "momentum", 10, _one_and_four()),
        ("convolutions", "sgd", 4, cluster(2, 2)),
    ],
)
def test_plans_of_builders_train_as_one_device_does(
    name: str, optimizer: str, batch: int, machine: Cluster
) -> None:
    step = _step(name, optimizer, batch)
    planner = _planner(step, machine)
    for builder in BUILDERS:
        check(step, planner, _built(builder, planner))


def test_parts_of_a_variable_may_be_synchronised_differently() -> None:
    """One part on a server, the others reduced in two groups, one of them with another variable."""
    step = _step("light-mlp", "adam", 6)
    planner = _planner(step, devices(2))
    base = _built("AllReduce", planner)
    first = base.variables[0]
    mixed = (Server("node0:GPU:1"), Collective(0), Collective(9))
    parts = tuple(Part(f"{first.name}/part_{n}", one) for n, one in enumerate(mixed))
    divided = replace(first, synchronizer=None, partition=(3, 1), parts=parts)
    check(step, planner, replace(base, variables=(divided, *base.variables[1:])))


def test_a_chunk_is_one_all_reduce() -> None:
    step = _step("light-mlp", "adam", 6)
    planner = _planner(step, devices(3))
    for chunk, count in ((1, 6), (2, 3), (4, 2), (128, 1)):
        strategy = build("AllReduce", planner.variables, Setting(planner.cluster, chunk))
        simulation = simulated(planner.planned(strategy), planner)
        large = [
            transfer
            for unit in simulation.units
            for _, exchange in unit.sends
            if exchange is not None
            for phase in exchange.phases
            for transfer in phase.steps
            if transfer.kind is CollectiveKind.ALL_REDUCE and transfer.bytes > 4
        ]
        assert len(large) == count
        assert sum(transfer.bytes for transfer in large) == 4 * step.parameters


def test_a_table_on_a_server_does_not_travel() -> None:
    """With a copy on every device it does."""
    step = _step("light-ncf", "momentum", 10)
    planner = _planner(step, devices(2))
    remote = _built("Parallax", planner)
    tables = sum(variable.bytes for variable in planner.variables if variable.is_sparse)
    assert [variable.is_sparse for variable in planner.variables][:5] == [True] * 4 + [False]
    copied = replace(
        remote,
        variables=tuple(
            replace(one, synchronizer=replace(one.synchronizer, local_replication=True))
            if isinstance(one.synchronizer, Server)
            else one
            for one in remote.variables
        ),
    )
    sent = [simulated(planner.planned(one), planner).communication_bytes for one in (remote, copied)]
    assert sent[0] < tables < sent[1]


def _changed(
    strategy: Strategy,
    synchronizer: Server | Collective | None,
    partition: tuple[int, ...] = (),
    parts: int = 0,
) -> Strategy:
    made = tuple(Part(f"p{number}", Collective()) for number in range(parts))
    first = replace(strategy.variables[0], synchronizer=synchronizer, partition=partition, parts=made)
    return replace(strategy, variables=(first, *strategy.variables[1:]))


def _without_last(strategy: Strategy) -> Strategy:
    return replace(strategy, variables=strategy.variables[:-1])


WHICH = "strategy: variable 'dense_0.kernel': "


BAD: list[tuple[Callable[[Strategy], Strategy], str]] = [
    (
        lambda s: replace(s, variables=(*s.variables, VariableSync("w", Collective()))),
        "strategy: 'w' is no parameter of the step; its parameters are dense_0.kernel, ",
    ),
    (
        lambda s: replace(s, variables=(*s.variables, s.variables[0])),
        WHICH + "expected one configuration, got 2",
    ),
    (_without_last, "strategy: variable 'dense_2.bias': expected a configuration, got none"),
    (
        lambda s: _changed(s, Server("node7:GPU:0")),
        "strategy: the cluster has no device 'node7:GPU:0'; its devices are node0:GPU:0, node0:GPU:1, ",
    ),
    (lambda s: replace(s, replicas=()), "strategy: replicas: expected at least one device, got none"),
    (
        lambda s: replace(s, replicas=("node0:GPU:0", "node0:CPU:0")),
        "strategy: replicas: expected each device once, got device 0 2 times",
    ),
    (lambda s: _changed(s, None), WHICH + "expected a synchroniser or parts, got neither"),
    (
        lambda s: _changed(s, Collective(), (2, 1), 2),
        WHICH + "expected one synchroniser or parts, got both",
    ),
    (
        lambda s: _changed(s, None, (2,), 2),
        WHICH + "partition: expected 2 numbers for the shape (64, 32)",
    ),
    (
        lambda s: _changed(s, None, (65, 1), 65),
        WHICH + "partition: axis 0 of size 64: expected 1 to 64 parts, got 65",
    ),
    (lambda s: _changed(s, None, (0, 1), 1), WHICH + "partition: axis 0 of size 64: expected 1 to 64"),
    (lambda s: _changed(s, None, (2, 2), 3), WHICH + "parts: expected 4 for the partition (2, 2), got 3"),
    (lambda s: _changed(s, Collective(), (2, 1)), WHICH + "parts: expected 2 for the partition (2, 1)"),
    (lambda s: _changed(s, Collective(-1)), WHICH + "group: expected 0 or more, got -1"),
    (
        lambda s: _changed(s, Server("node0:GPU:0", staleness=-1)),
        WHICH + "staleness: expected 0 or more steps, got -1",
    ),
    (
        lambda s: _changed(s, Server("node0:GPU:0", sync=False, staleness=2)),
        WHICH + "staleness: expected 0 where sync is false, got 2",
    ),
    (
        lambda s: _changed(s, Collective(compressor=Compressor.CAST)),
        "strategy: group 0: expected one spec and compressor, got those of 'dense_0.kernel' and ",
    ),
    (
        lambda s: _changed(s, Collective(99, compressor=Compressor.CAST)),
        WHICH + "compressor cast changes what is trained: write the step",
    ),
    (lambda s: _changed(s, Server("node0:GPU:0", sync=False)), WHICH + "sync is false, so that nothing"),
    (
        lambda s: _changed(s, Server("node0:GPU:0", staleness=2)),
        WHICH + "staleness 2 changes what is trained",
    ),
]


@pytest.mark.parametrize(("change", "sentence"), BAD)
def test_a_bad_strategy_is_one_sentence(change: Callable[[Strategy], Strategy], sentence: str) -> None:
    planner = _planner(_step("light-mlp", "adam", 6), devices(3))
    with pytest.raises(InvalidOptionError) as caught:
        planner.planned(change(_built("AllReduce", planner)))
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("size", "divisor", "other"),
    [(1, 1, 1), (2, 2, 2), (3, 3, 2), (4, 2, 3), (35, 5, 2), (67, 1, 2), (6, 2, 4)],
)
def test_numbers_of_parts(size: int, divisor: int, other: int) -> None:
    assert (smallest_divisor(size), smallest_non_divisor(size)) == (divisor, other)


def test_the_search_is_not_slower_than_any_builder_and_repeats_itself() -> None:
    step = _step("light-ncf", "momentum", 10)
    found = [AutoStrategy(_planner(step, _one_and_four()), Effort(10)).search() for _ in range(2)]
    assert found[0].strategy == found[1].strategy
    assert found[0].best.microseconds <= min(trial.microseconds for trial in found[0].builders)
    assert len(found[0].trials) == len(BUILDERS) + 10
    check(step, _planner(step, _one_and_four()), found[0].strategy)


@pytest.mark.parametrize("without", list(Aspect))
def test_an_aspect_that_is_switched_off_does_not_vary(without: Aspect) -> None:
    step = _step("convolutions", "sgd", 4)
    search = AutoStrategy(_planner(step, cluster(2, 2)), Effort(4, aspects=EVERY_ASPECT - {without}))
    drawn = [trial.strategy for trial in search.search().trials if trial.draft is not None]
    variables = [variable for strategy in drawn for variable in strategy.variables]
    parts = [part for variable in variables for part in variable.synchronizers]
    match without:
        case Aspect.PARTITION:
            assert not any(variable.is_partitioned for variable in variables)
        case Aspect.SERVERS:
            assert all(isinstance(part, Collective) for part in parts)
        case Aspect.GROUPS:
            for strategy in drawn:
                groups = [
                    p.group for v in strategy.variables for p in v.synchronizers if isinstance(p, Collective)
                ]
                assert len(set(groups)) == len(groups)


def test_columns_of_a_table_are_looked_up_and_updated_on_several_servers() -> None:
    """Rows travel, the table does not; the parts of all tables are balanced by rows."""
    step = _step("light-ncf", "momentum", 10)
    planner = _planner(step, _one_and_four())
    names = DeviceNames(planner.cluster)
    base = _built("Parallax", planner)
    divided = tuple(
        VariableSync.divided(one.name, (1, 2), [Server(name) for name in names.hosts])
        if planner.variables[number].is_sparse
        else one
        for number, one in enumerate(base.variables)
    )
    strategy = replace(base, variables=divided)
    tables = [variable for variable in planner.variables if variable.is_sparse]
    assert all(serves_rows(one, strategy.by_name[one.name], names) for one in tables)
    check(step, planner, strategy)
    by_rows = replace(
        strategy, variables=tuple(replace(one, partition=(2, 1)) if one.parts else one for one in divided)
    )
    assert not any(serves_rows(one, by_rows.by_name[one.name], names) for one in tables)


def _as_built(name: str) -> StrategyPlanner:
    step = network_step(name, 64, "sgd")
    return StrategyPlanner(step.graph, step.layout, Prices(cluster(2, 2)))


def _as_written(name: str) -> StrategyPlanner:
    return _planner(_step(name, "sgd", 64), cluster(2, 2))


@pytest.mark.parametrize("planner_of", [_as_built, _as_written])
def test_rows_are_summed_on_their_servers(planner_of: Callable[[str], StrategyPlanner]) -> None:
    """The sum of rows is an operator of the algebra, and columns of it are divided."""
    planner = planner_of("light-ncf")
    whole = _built("Parallax", planner)
    names = DeviceNames(planner.cluster)
    columns = replace(
        whole,
        variables=tuple(
            VariableSync.divided(one.name, (1, 4), [Server(name) for name in names.accelerators])
            if planner.variables[number].is_sparse
            else one
            for number, one in enumerate(whole.variables)
        ),
    )
    sent = [simulated(planner.planned(one), planner).communication_bytes for one in (whole, columns)]
    tables = sum(variable.bytes for variable in planner.variables if variable.is_sparse)
    indices = 512 * len(planner.cluster) ** 2
    assert sent[0] <= sent[1] <= sent[0] + indices
    rows = sum(variable.row_bytes for variable in planner.variables if variable.is_sparse)
    assert sent[1] < 3 * rows + tables


def test_names_of_builders_are_values_of_the_option() -> None:
    names = [choice.name for choice in OPTIONS["strategy"].choices]
    assert set(BUILDERS) < set(names)

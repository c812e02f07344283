"""Plans run on virtual devices: outputs are those of the whole graph, bytes those that were foretold."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import numpy as np
import pytest

from optimizer.parallel.communication import communication, moved_bytes, summed
from optimizer.parallel.execution import Execution, HostMachine, JaxMachine, Machine, execute
from optimizer.parallel.execution.machine import A
from optimizer.parallel.placement import Placement, needed, produced
from optimizer.parallel.tasks import splits_of
from superopt.ir.graph import Graph, Input, Value, Weight
from superopt.ir.plan import Parallelism, Plan
from superopt.ir.types import TensorType
from tests.optimizer.parallel.random_plans import DEVICES, random_arrays, random_graph, random_plan

PLANS = 300
IN_JAX = 3
"""JAX compiles every operator at every shape; this module, run with the word jax, checks all of them."""


def foretold_bytes(graph: Graph, plan: Plan) -> int:
    """What the communications between placements add up to, each (tensor, placement) once."""
    wanted: set[tuple[Value, Placement]] = set()
    for node in graph:
        if isinstance(node.operator, Input | Weight):
            continue
        how = plan.parallel.get(node.id) or Parallelism((1,) * len(splits_of(graph, node).dimensions), (0,))
        wanted.update(
            (value, needed(splits_of(graph, node), how, slot)) for slot, value in enumerate(node.inputs)
        )
    values = {value for value, _ in wanted}.union(graph.outputs)
    have = {value: _produced(graph, plan, value) for value in values}
    wanted.update(
        (value, summed(place)) for value in graph.outputs if (place := have[value]) and place.partial > 1
    )
    total = 0
    for value, want in wanted:
        place, type_ = have[value], graph.type_of(value)
        if place is not None and isinstance(type_, TensorType):
            sizes = tuple(size for size in type_.shape if isinstance(size, int))
            total += moved_bytes(communication(place, want, sizes, type_.element.bytes_per_element))
    return total


def _produced(graph: Graph, plan: Plan, value: Value) -> Placement | None:
    node = graph[value.node]
    if isinstance(node.operator, Input | Weight):
        return None
    splits = splits_of(graph, node)
    how = plan.parallel.get(node.id) or Parallelism((1,) * len(splits.dimensions), (0,))
    return produced(splits, how, value.port)


def check(number: int, machine: Machine[A]) -> Execution:
    """One random plan of one random graph, against the same graph on one device."""
    draw = random.Random(number)
    graph = random_graph(draw)
    arrays = random_arrays(graph)
    whole = execute(graph, Plan(), {}, arrays, HostMachine())
    plan = random_plan(draw, graph)
    parallel = execute(graph, plan, {}, arrays, machine)
    for expected, got in zip(whole.outputs, parallel.outputs, strict=True):
        np.testing.assert_allclose(got, expected, rtol=2e-4, atol=2e-5, err_msg=f"plan {number}")
    assert parallel.moved_bytes == foretold_bytes(graph, plan), f"plan {number}"
    assert whole.moved_bytes == 0
    return parallel


def test_random_plans_compute_what_the_graph_computes_and_move_what_was_foretold() -> None:
    machine = HostMachine()
    moved = [check(number, machine).moved_bytes for number in range(PLANS)]
    assert sum(1 for count in moved if count) > PLANS / 2


def test_the_same_in_jax() -> None:
    pytest.importorskip("jax")
    environment = {**os.environ, "XLA_FLAGS": f"--xla_force_host_platform_device_count={DEVICES}"}
    command = [sys.executable, "-m", "tests.optimizer.parallel.test_execution", "jax", str(IN_JAX)]
    subprocess.run(command, env=environment, check=True)


def main() -> int:
    """Runs many plans, on the host or in JAX."""
    count = next((int(word) for word in sys.argv[1:] if word.isdigit()), PLANS)
    machine = JaxMachine(DEVICES) if "jax" in sys.argv else HostMachine()
    for number in range(count):
        check(number, machine)
    sys.stdout.write(f"{count} plans: all outputs equal, all bytes as foretold\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

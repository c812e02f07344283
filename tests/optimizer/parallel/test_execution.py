"""Plans run on virtual devices: outputs are those of the whole graph, bytes those that were foretold."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import numpy as np
import pytest

from superopt.ir.plan import Plan
from superopt.optimizer.parallel.documents.cluster import parse_cluster
from superopt.optimizer.parallel.execution import Execution, HostMachine, JaxMachine, Machine, execute
from superopt.optimizer.parallel.execution.machine import A
from superopt.optimizer.parallel.simulator import ParallelObjective, simulate
from tests.optimizer.parallel.random_plans import DEVICES, random_arrays, random_graph, random_plan

PLANS = 300
IN_JAX = 3
"""JAX compiles every operator at every shape; this module, run with the word jax, checks all of them."""


CLUSTER = parse_cluster(
    f"""
name: one box
nodes:
  - {{count: 1, devices: {DEVICES}, device: {{flops: 1 TFLOP/s, memory_bandwidth: 100 GB/s}},
     memory: 8 GiB, link: {{bandwidth: 10 GB/s, latency: 1 us}}}}
""",
    "a test",
)


def check(number: int, machine: Machine[A]) -> Execution:
    """One random plan of one random graph, against the same graph on one device."""
    draw = random.Random(number)
    graph = random_graph(draw)
    arrays = random_arrays(graph)
    whole = execute(graph, Plan(), arrays, arrays, HostMachine())
    plan = random_plan(draw, graph)
    foretold = simulate(graph, plan, CLUSTER, ParallelObjective.LATENCY)
    parallel = execute(graph, plan, arrays, arrays, machine, order=foretold.order)
    for expected, got in zip(whole.outputs, parallel.outputs, strict=True):
        np.testing.assert_allclose(got, expected, rtol=2e-4, atol=2e-5, err_msg=f"plan {number}")
    assert parallel.moved_bytes == foretold.communication_bytes, f"plan {number}"
    if isinstance(machine, HostMachine):
        assert foretold.memory_bytes == tuple(parallel.peaks.get(device, 0) for device in range(DEVICES))
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

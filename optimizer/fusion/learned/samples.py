"""Random kernels of training steps, to be timed: what DisCo's methods make of a step (section 5.2)."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

from superopt.ir.graph import Graph
from superopt.ir.plan import Plan
from superopt.ops.opaque import Opaque
from superopt.optimizer.fusion.joint.problem import Problem
from superopt.optimizer.fusion.joint.published import duplicate_somewhere, fuse_somewhere
from superopt.optimizer.fusion.joint.state import Joint
from superopt.optimizer.fusion.joint.streams import timed
from superopt.optimizer.parallel.documents.cluster import parse_cluster
from superopt.optimizer.parallel.simulator import ParallelObjective, Simulator
from superopt.optimizer.parallel.tasks import KernelTask
from superopt.optimizer.parallel.training_plans.states import StepStates

_ONE_DEVICE = "nodes: [{device: {flops: 1 TFLOP/s, memory_bandwidth: 1 TB/s}, memory: 1 PB}]"
_SHARES = (0.0, 0.2, 0.5, 1.0, 2.0)
"""Fusions that are tried, as shares of the number of operators."""


def kernels(graph: Graph, states: StepStates, seed: int) -> Iterator[KernelTask]:
    """Kernels of a step on one device, each once, in random order, in turn of candidates with few and with
    many random fusions. ``graph`` is one returned by ``plannable``. Kernels with nodes that are no operators
    are left out."""
    simulator = Simulator(graph, parse_cluster(_ONE_DEVICE, "one"), ParallelObjective.LATENCY, step=states)
    problem = Problem.of(simulator.simulate(Plan()))
    chance, known = random.Random(seed), set[KernelTask]()
    candidates = [_shuffled(problem, int(share * problem.size), chance) for share in _SHARES]
    for task in itertools.chain.from_iterable(itertools.zip_longest(*candidates)):
        if task is not None and task not in known:
            known.add(task)
            yield task


def _shuffled(problem: Problem, fusions: int, chance: random.Random) -> list[KernelTask]:
    """The kernels of a candidate after so many random fusions."""
    joint = Joint.unfused(problem)
    order = timed(joint)
    for _ in range(fusions):
        chance.choice((fuse_somewhere, duplicate_somewhere))(joint, order, chance)
        if any(head not in joint.nodes for head in order.order):
            order = timed(joint)
    found = [task for head in joint.nodes if (task := _task(problem, joint, head)) is not None]
    chance.shuffle(found)
    return found


def _task(problem: Problem, joint: Joint, head: int) -> KernelTask | None:
    node = joint.nodes[head]
    if not node.takes_time:
        return None
    members, copied = node.kernel.members, node.kernel.copied
    task = problem.model.task(members, problem.model.written(members, copied, problem.readers))
    return None if any(isinstance(one.operator, Opaque) for one in task.tasks) else task

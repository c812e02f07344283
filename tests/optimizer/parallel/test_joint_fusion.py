"""Joint fusion of operators and reductions (DisCo): kernels, buckets, their price, execution and search."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pytest

from superopt.errors import InvalidFileError, InvalidOptionError
from superopt.ir.graph import NodeId, Value
from superopt.ir.plan import FusionGroup, Plan
from superopt.optimizer.fusion.joint.baselines import BOTH, BUCKETS, NONE, OPERATORS, REDUCTIONS, baselines
from superopt.optimizer.fusion.joint.plans import plan_of
from superopt.optimizer.fusion.joint.problem import Problem
from superopt.optimizer.fusion.joint.published import Limits, backtracking
from superopt.optimizer.fusion.joint.refined import refined
from superopt.optimizer.fusion.joint.state import Joint
from superopt.optimizer.fusion.joint.streams import timed
from superopt.optimizer.parallel.documents.plan_text import plan_from_json, plan_to_json
from superopt.optimizer.parallel.execution import JaxMachine
from superopt.optimizer.parallel.execution.executor import Execution, execute
from superopt.optimizer.parallel.simulator import Simulation
from tests.optimizer.parallel.fusions import DEVICES, problem, random_joint, simulator, small_step

CANDIDATES = 16
EXECUTED = 2


def test_two_streams_take_the_time_of_the_simulator() -> None:
    """Without kernels, and for random kernels and buckets."""
    sizes: set[int] = set()
    for number, joint in enumerate((Joint.unfused(problem()), *map(random_joint, range(CANDIDATES)))):
        simulated = simulator().simulate(plan_of(joint))
        assert timed(joint).microseconds == simulated.microseconds, f"candidate {number}"
        assert simulated.communication_bytes == problem().simulation.communication_bytes
        sizes.update(len(group.members) for group in simulated.plan.fusion.values())
    assert max(sizes) > 4


def test_candidates_are_free_of_circles_and_compute_everything_once() -> None:
    for seed in range(CANDIDATES):
        joint = random_joint(seed)
        place = joint.place
        assert [joint.order[place[node]] for node in place] == list(place)
        for head, node in joint.nodes.items():
            assert all(joint.owner[number] == head for number in node.owned)
            for source, transfer in node.reads:
                before = joint.owner[source] if transfer < 0 else problem().size + joint.bucket[transfer]
                assert place[before] < place[head]
        assert sorted(number for node in joint.nodes.values() for number in node.owned) == [
            *range(problem().size)
        ]


def _same(got: Execution, expected: Execution) -> None:
    for name, one, other in zip(small_step().layout.outputs, got.outputs, expected.outputs, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5, err_msg=name)


def test_kernels_and_buckets_compute_send_and_hold_what_was_foretold() -> None:
    """Duplicated members among them; every bucket is one collective."""
    step = small_step()
    whole = step.executed(Plan())
    duplicated = 0
    for seed in range(EXECUTED):
        simulated = simulator().simulate(plan_of(random_joint(seed, 120)))
        executed = step.executed(simulated.plan, simulated.order)
        _same(executed, whole)
        assert executed.moved_bytes == simulated.communication_bytes
        assert tuple(executed.peaks[device] for device in range(DEVICES)) == simulated.memory_bytes
        assert executed.reductions == _collectives(simulated)
        duplicated += sum(len(group.duplicated) for group in simulated.plan.fusion.values())
    assert duplicated


def _collectives(simulation: Simulation) -> int:
    return sum(exchange is not None for unit in simulation.issued for _, exchange in unit.sends)


def test_a_plan_is_read_back_as_it_was_written() -> None:
    for seed in range(4):
        plan = plan_of(random_joint(seed))
        subject = small_step().subject
        assert plan_from_json(plan_to_json(plan, subject), subject, DEVICES) == plan


def _chain() -> tuple[NodeId, NodeId]:
    """An operator and one that reads it, which can be one kernel."""
    joint = Joint.unfused(problem())
    operations = problem().simulation.operations.all
    for head in joint.nodes:
        for producer in joint.producers(head):
            if joint.saves(head, producer) > 0:
                return operations[producer].node, operations[head].node
    raise AssertionError("nothing can be fused")


def _product_and_source() -> FusionGroup:
    """A product of matrices with what computes its operand."""
    operations = problem().simulation.operations.all
    for number, operation in enumerate(operations):
        for source, _ in problem().reads[number]:
            made = problem().model.why_not((source, number), frozenset(), problem().readers)
            if made is not None and "a product reads" in made:
                return FusionGroup(operation.node, (operations[source].node, operation.node))
    raise AssertionError("no product")


def test_impossible_kernels_and_buckets_are_refused_in_one_sentence() -> None:
    first, second = _chain()
    whole = problem().simulation.plan
    pair = FusionGroup(second, (first, second))
    values = [
        Value(problem().simulation.operations.all[one.number].node, one.key[0]) for one in problem().transfers
    ]
    last = problem().simulation.operations.all[-1].node
    product = _product_and_source()
    cases: dict[str, Plan] = {
        "expected a head that is a member": replace(whole, fusion={last: FusionGroup(last, (first, second))}),
        "expected two or more different members": replace(
            whole, fusion={second: FusionGroup(second, (second,))}
        ),
        "unless it is duplicated": replace(
            whole, fusion={second: pair, first: FusionGroup(first, (first, second))}
        ),
        "the graph has no operator 99999": replace(
            whole, fusion={second: FusionGroup(second, (NodeId(99999), second))}
        ),
        "a product reads what another of them computes": replace(whole, fusion={product.head: product}),
        "values that are reduced once, in one bucket": replace(whole, buckets=((values[0],), (values[0],))),
        "expected every operator once": replace(whole, order=(first,)),
        "its reader": replace(whole, order=tuple(reversed(problem().simulation.order))),
        "expected one stage and one microbatch": replace(whole, buckets=(tuple(values[:2]),), microbatches=2),
    }
    for sentence, plan in cases.items():
        with pytest.raises(InvalidOptionError) as raised:
            simulator().simulate(plan)
        assert sentence in str(raised.value), sentence
        assert str(raised.value).count("\n") == 0


def test_plans_in_which_devices_differ_are_refused_with_the_reason() -> None:
    cases = {
        "got .* on some of the devices": Plan(),
        "got a plan with kernels, buckets or an order": replace(
            problem().simulation.plan, order=plan_of(Joint.unfused(problem())).order
        ),
    }
    for sentence, plan in cases.items():
        with pytest.raises(InvalidOptionError, match=f"joint fusion: expected a plan .*, {sentence}$"):
            Problem.of(simulator().simulate(plan))


def test_malformed_kernels_of_a_file_are_named() -> None:
    subject = small_step().subject
    node = subject.operations[0].node
    whole: dict[str, object] = {"head": node, "nodes": [node]}
    cases: dict[str, object] = {
        "kernels: Input should be a valid dictionary or instance of KernelsEntry, got 3": 3,
        "kernels.groups.0.nodes: Field required": {"groups": [{"head": node}]},
        "kernels.groups.0.duplicated: Input should be a valid list, got 3": {
            "groups": [{**whole, "duplicated": 3}]
        },
        "kernels.groups.1: node 0 is the head of another group, too": {"groups": [whole, whole]},
        "kernels.groups.0.head: expected a node of the graph, got 99999": {
            "groups": [{**whole, "head": 99999}]
        },
        "kernels.buckets.0: Input should be a valid list, got 3": {"buckets": [3]},
        "kernels.buckets.0: expected a node of the graph, got 99999": {"buckets": [[[99999, 0]]]},
        f"kernels.buckets.0: expected a port of node {node} from 0 to 0, got 1": {"buckets": [[[node, 1]]]},
        "kernels.buckets.0.0.1: Input should be a valid integer, got False": {"buckets": [[[node, False]]]},
        "kernels.buckets.0.0: List should have at least 2 items": {"buckets": [[[node]]]},
        "kernels.order.0: Input should be a valid integer, got True": {"order": [True]},
    }
    for sentence, kernels in cases.items():
        with pytest.raises(InvalidFileError) as raised:
            plan_from_json({"operators": [], "kernels": kernels}, subject, DEVICES)
        assert str(raised.value).startswith(f"plan: {sentence.replace('node 0 is', f'node {node} is')}")


def test_searches_are_deterministic_and_not_slower_than_the_rules() -> None:
    known = baselines(problem())
    rules = {name: rule.timed.microseconds for name, rule in known.items()}
    assert [*rules] == [NONE, OPERATORS, REDUCTIONS, BOTH, BUCKETS]
    ours = [refined(problem(), known, 3) for _ in range(2)]
    assert ours[0].timed == ours[1].timed
    assert ours[0].timed.overlapped <= ours[0].timed.microseconds <= min(rules.values())
    few = Limits(patience=60)
    published = [backtracking(problem(), 3, limits=few) for _ in range(2)]
    assert published[0].timed == published[1].timed
    assert published[0].timed.microseconds < rules[NONE]


def test_kernels_and_buckets_in_jax() -> None:
    pytest.importorskip("jax")
    environment = {**os.environ, "XLA_FLAGS": f"--xla_force_host_platform_device_count={DEVICES}"}
    command = [sys.executable, "-m", "tests.optimizer.parallel.test_joint_fusion", "jax"]
    found = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert found.returncode == 0, found.stdout + found.stderr


def in_jax() -> None:
    """One step on JAX devices, with and without kernels and buckets: equal results, one ``jit`` for each
    group and one collective for each bucket."""
    step = small_step()
    machine = JaxMachine(DEVICES, step.lifted.source)
    plan = plan_of(refined(problem(), baselines(problem()), 0).joint)
    assert plan.fusion
    plan = replace(plan, fusion=MappingProxyType(dict(plan.fusion)))
    simulated = simulator().simulate(plan)
    executed = execute(step.graph, plan, step.weights, step.feeds(), machine, step=step.states)
    _same(executed, step.executed(Plan()))
    assert executed.reductions == _collectives(simulated)
    assert 0 < len(machine.compiled) <= len(plan.fusion)
    sys.stdout.write(
        f"{len(plan.fusion)} groups in {len(machine.compiled)} compiled functions, "
        f"{executed.reductions} collectives instead of {len(problem().transfers)}\n"
    )


if __name__ == "__main__":
    in_jax()

"""Liveness: bytes predicted are bytes counted, in every schedule; schedules that cannot run are refused."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import onnx
import pytest

from superopt import zoo
from superopt.onnx_io.node_memory import tensor_sizes
from superopt.onnx_io.protos import names_within
from superopt.optimizer.memory.liveness import (
    InvalidScheduleError,
    Operation,
    Program,
    Schedule,
    liveness,
)
from superopt.optimizer.memory.nodes import program_of, scheduled_nodes
from superopt.training import StepSettings, train_graph
from tests.optimizer.memory.executed import arrays_for, execute, results_alone


def chain(**last: object) -> Program:
    """Tensor 0 is given; 1, 2 and 3 are made one after another, and 4 from 1 and 3."""
    made = [Operation(f"o{index}", (index,), (index + 1,)) for index in range(3)]
    return Program((*made, Operation("o3", (1, 3), (4,), **last)), (7, 100, 10, 100, 100), frozenset({4}), 7)  # pyright: ignore[reportArgumentType]


CURVES: dict[str, tuple[Program, Schedule, tuple[int, ...]]] = {
    "a tensor is alive from its maker to its last reader": (
        chain(),
        (0, 1, 2, 3),
        (107, 117, 217, 307),
    ),
    "what is computed again is free in between": (
        chain(),
        (0, 1, 0, 2, 3),
        (107, 117, 117, 217, 307),
    ),
    "a result may take the memory of an operand": (
        chain(overwrites=(1,)),
        (0, 1, 2, 3),
        (107, 117, 217, 207),
    ),
    "but not of one that is read again": (
        Program(
            (Operation("o0", (0,), (1,)), Operation("o1", (1,), (2,), (1,)), Operation("o2", (1, 2), (3,))),
            (7, 100, 100, 100),
            frozenset({3}),
            0,
        ),
        (0, 1, 2),
        (100, 200, 300),
    ),
    "a workspace counts while its operation runs": (
        chain(workspace=1000),
        (0, 1, 2, 3),
        (107, 117, 217, 1307),
    ),
    "a view keeps the memory of its operand": (
        Program(
            (
                Operation("o0", (0,), (1,)),
                Operation("o1", (1,), (2,), is_view=True),
                Operation("o2", (2,), (3,)),
            ),
            (7, 100, 100, 100),
            frozenset({3}),
            0,
        ),
        (0, 1, 2),
        (100, 100, 200),
    ),
    "an output that the caller places is resident": (
        Program((Operation("o0", (0,), (1,)),), (7, 100), frozenset({1}), 107, frozenset({1})),
        (0,),
        (107,),
    ),
}


@pytest.mark.parametrize(("program", "schedule", "curve"), CURVES.values(), ids=CURVES.keys())
def test_the_curve(program: Program, schedule: Schedule, curve: tuple[int, ...]) -> None:
    alive = liveness(program, schedule)
    assert (alive.curve, alive.peak) == (curve, max(curve))


@pytest.mark.parametrize(
    ("schedule", "why"),
    [
        ((1, 0, 2, 3), "the schedule runs o1 before o0, whose result it reads"),
        ((0, 1, 2), "the schedule does not compute o3"),
    ],
)
def test_a_schedule_that_cannot_run_is_refused(schedule: Schedule, why: str) -> None:
    with pytest.raises(InvalidScheduleError, match=why):
        liveness(chain(), schedule)


@pytest.mark.parametrize("name", ["light-mlp", "light-gpt2"])
def test_bytes_are_those_of_an_execution(name: str) -> None:
    """Of a training step, in random orders with random repetitions: counted bytes and equal outputs."""
    model = train_graph(zoo.build(name, batch=2), StepSettings()).step.model.to_proto()
    nodes = program_of(model.graph, tensor_sizes(model))
    program = results_alone(nodes.program)
    arrays, outputs = arrays_for(model), [value.name for value in model.graph.output]
    listed = execute(model.graph.node, arrays, outputs)
    assert listed.peak == liveness(program).peak
    for seed in range(3):
        schedule = random_schedule(program, random.Random(seed))
        taken = frozenset(names_within(model.graph))
        written = list(scheduled_nodes(model.graph.node, schedule, outputs, taken))
        found = execute(written, arrays, outputs)
        assert found.peak == liveness(program, schedule).peak
        for output in outputs:
            np.testing.assert_array_equal(found.outputs[output], listed.outputs[output])
        checked = onnx.ModelProto()
        checked.CopyFrom(model)
        del checked.graph.node[:]
        checked.graph.node.extend(written)
        onnx.checker.check_model(checked)


def random_schedule(program: Program, source: random.Random) -> Sequence[int]:
    """A random order, in which some operations run again later."""
    waiting = [set(sources) for sources in program.sources]
    order: list[int] = []
    ready = [index for index, sources in enumerate(waiting) if not sources]
    while ready:
        index = ready.pop(source.randrange(len(ready)))
        order.append(index)
        for later, sources in enumerate(waiting):
            if index in sources:
                sources.remove(index)
                if not sources:
                    ready.append(later)
    for _ in range(len(order) // 10):
        place = source.randrange(len(order))
        if program.operations[order[place]].repeatable:
            order.insert(source.randrange(place, len(order)) + 1, order[place])
    return order

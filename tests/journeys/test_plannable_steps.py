"""Training steps of the zoo's networks as graphs to be planned, without their weights."""

from __future__ import annotations

import math

from superopt import zoo
from superopt.ir.graph import Input
from superopt.journeys.planning.plannable_steps import network_step
from superopt.optimizer.parallel.tasks import shape_of
from superopt.optimizer.training.description import Role


def test_a_network_of_several_gigabytes_is_planned_without_its_weights() -> None:
    step = network_step("mlp", 512, "adam")
    parameters = {one.name for one in step.layout.description.states if one.role is Role.PARAMETER}
    inputs = [step.graph[node].operator for node in step.graph.inputs]
    shapes = [shape_of(one.type) for one in inputs if isinstance(one, Input) and one.label in parameters]
    assert sum(map(math.prod, shapes)) == zoo.blueprint("mlp").parameters


def test_a_network_of_the_onnx_package_has_its_own_weights() -> None:
    assert network_step("light-squeezenet", 1, "sgd").subject.operations

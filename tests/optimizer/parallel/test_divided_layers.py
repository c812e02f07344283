"""Expert plans of training steps that divide layers: Megatron's, one weird trick, DLRM's tables apart."""

from __future__ import annotations

import numpy as np
import pytest

from superopt import zoo
from superopt.ir.plan import Plan
from superopt.onnx_io import build_model
from superopt.ops.elementwise.activation import Relu
from superopt.ops.images.convolution import Conv
from superopt.ops.matrix import Matmul
from superopt.ops.shape import Reshape
from superopt.optimizer.parallel.documents.cluster import named_cluster
from superopt.optimizer.parallel.experts import experts
from superopt.optimizer.parallel.search.choices import Licence, everything
from superopt.optimizer.parallel.search.mesh import Mesh
from superopt.optimizer.parallel.search.subject import Operation
from superopt.optimizer.parallel.simulator import ParallelObjective, Simulation, simulate
from superopt.optimizer.parallel.terms import TermDimension
from superopt.optimizer.parallel.topology import Cluster
from superopt.optimizer.parallel.training_plans.divided_layers import (
    HYBRID,
    WEIRD_TRICK,
    megatron,
    model_axes,
)
from tests.optimizer.graphs import Builder
from tests.optimizer.parallel.explicit_steps import ExplicitStep, explicit_step
from tests.optimizer.parallel.networks import devices, mlp
from tests.optimizer.parallel.random_plans import random_arrays

LATENCY = ParallelObjective.LATENCY


def _simulated(step: ExplicitStep, machine: Cluster, licence: Licence = everything) -> dict[str, Simulation]:
    return {
        one.name: simulate(step.graph, one.plan, machine, LATENCY, step.states)
        for one in experts(step.subject, Mesh.of(machine), licence)
    }


def _without_terms(operation: Operation, dimension: int) -> bool:
    return not isinstance(operation.splits.dimensions[dimension], TermDimension)


@pytest.mark.parametrize(("licence", "elements"), [(_without_terms, 1_280), (everything, 2)])
def test_megatron_sends_what_unity_says(licence: Licence, elements: int) -> None:
    """Unity's figure 2: the first layer by columns, the second by rows; the output is summed. This loss is
    linear in it, so that its own terms may be summed instead."""
    graph = mlp(64, 784, 512, 10)
    step = explicit_step(build_model(graph, random_arrays(graph)))
    found = _simulated(step, devices(2), licence)
    assert found["Megatron 2-way"].communication_bytes == 4 * elements


def _convolutional() -> bytes:
    """A convolution and two dense layers."""
    builder = Builder()
    x = builder.add(Conv(padding="same"), builder.input("x", 8, 4, 6, 6), builder.weight(8, 4, 3, 3))
    x = builder.add(Reshape((8, 288)), builder.add(Relu(), x))
    x = builder.add(Relu(), builder.add(Matmul(), x, builder.weight(288, 64)))
    graph = builder.graph(builder.add(Matmul(), x, builder.weight(64, 16)))
    return build_model(graph, random_arrays(graph))


@pytest.mark.parametrize(
    ("model", "name", "count"),
    [
        ("light-mlp", "Megatron 2-way, axis 1", 4),
        ("light-bert", "Megatron 2-way, axis 1", 4),
        ("light-ncf", HYBRID, 2),
        ("convolutional", WEIRD_TRICK, 2),
    ],
)
def test_a_divided_step_computes_sends_and_holds_what_was_foretold(model: str, name: str, count: int) -> None:
    built = _convolutional() if model == "convolutional" else zoo.build(model, batch=8)
    step = explicit_step(built, "momentum")
    machine = devices(count)
    foretold = _simulated(step, machine)[name]
    executed = step.executed(foretold.plan, foretold.order)
    alone = step.executed(Plan())
    for output, expected, got in zip(step.layout.outputs, alone.outputs, executed.outputs, strict=True):
        np.testing.assert_allclose(got, expected, rtol=2e-3, atol=2e-4, err_msg=output)
    assert executed.moved_bytes == foretold.communication_bytes > 0
    assert tuple(executed.peaks.get(device, 0) for device in range(count)) == foretold.memory_bytes


@pytest.mark.parametrize("machine", ["4x-t4", "dgx-a100", "summit-node", "autodist-a2"])
def test_plans_along_different_axes_have_different_names(machine: str) -> None:
    mesh = Mesh.of(named_cluster(machine))
    every = list(model_axes(mesh))
    assert len({megatron(mesh, axes) for axes in every}) == len(every)

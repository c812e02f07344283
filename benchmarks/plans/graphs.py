"""The training steps to be planned, and parts of machines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from superopt import zoo
from superopt.equations import parse_equation
from superopt.errors import InvalidOptionError
from superopt.ir.graph import Graph, Input, Weight
from superopt.ir.types import ElementType, TensorType
from superopt.journeys.planning.plannable_steps import PlannableStep
from superopt.journeys.training import train_graph
from superopt.onnx_io import build_model, lift, load_model
from superopt.ops.elementwise.activation import Relu
from superopt.ops.matrix import Matmul
from superopt.optimizer.parallel.documents.cluster import named_cluster
from superopt.optimizer.parallel.experts import Assignment, assignments
from superopt.optimizer.parallel.search.choices import COPIED
from superopt.optimizer.parallel.search.mesh import Mesh
from superopt.optimizer.parallel.search.planner import Planner
from superopt.optimizer.parallel.search.subject import Operation, plannable
from superopt.optimizer.parallel.simulator import ParallelObjective, simulate
from superopt.optimizer.parallel.terms import TermDimension
from superopt.optimizer.parallel.topology import Cluster, Node
from superopt.optimizer.parallel.training_plans.derived import LayerDivision
from superopt.optimizer.parallel.training_plans.states import StepLayout
from superopt.rewriting import Substitution, substitutions_of
from superopt.step_options import COTANGENTS, StepSettings

if TYPE_CHECKING:
    import onnx


def planned_step(text: str) -> PlannableStep:
    """The step of NETWORK:BATCH:LOSS. Raises InvalidOptionError for another form."""
    name, _, rest = text.partition(":")
    batch, _, loss = rest.partition(":")
    if not batch.isdecimal() or not loss:
        raise InvalidOptionError(f"network: expected NETWORK:BATCH:LOSS, got {text!r}")
    settings = StepSettings()
    settings = replace(
        settings, update=replace(settings.update, optimizer="adam"), loss=replace(settings.loss, loss=loss)
    )
    return _step_of(zoo.build(name, batch=int(batch)), settings)


def _step_of(model: onnx.ModelProto | bytes, settings: StepSettings) -> PlannableStep:
    source = load_model(train_graph(model, settings).step.model.to_bytes())
    layout = StepLayout.of(source.proto, "step")
    assert layout is not None, "train_graph describes its step"
    return PlannableStep(plannable(lift(source).graph), layout)


def part(cluster: Cluster, devices: int) -> Cluster:
    """The first so many devices of the first node."""
    node = cluster.nodes[0]
    sockets = node.sockets if devices % node.sockets == 0 and devices >= len(node.devices) else 1
    kept = tuple(replace(device, socket=0) for device in cluster.devices[:devices])
    return Cluster(
        f"{cluster.name}, {devices} devices",
        kept,
        (Node(tuple(range(devices)), node.link, node.network, sockets, node.bridge),),
    )


def machine(name: str, devices: int) -> Cluster:
    """So many devices of machines of that name: a part of one, or several."""
    single = named_cluster(name)
    if devices < len(single):
        return part(single, devices)
    return named_cluster(f"{name}:{devices * len(single.nodes) // len(single)}")


def verified_rules() -> tuple[Substitution, ...]:
    """The verified rules of the shipped library."""
    path = Path(__file__).parents[2] / "substitution_db" / "library.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return tuple(
        substitution
        for row in rows
        if row.get("status") == "verified"
        for substitution in substitutions_of(parse_equation(row["equation"]), row["id"])
    )


def mlp() -> PlannableStep:
    """A step by SGD of the two layers of Unity's figure 2: 64 samples, 784 to 512 to 10."""
    editor = Graph.empty().edit()
    x = editor.add(Input("x", _tensor(64, 784))).value
    first = editor.add(Matmul(), (x, editor.add(Weight("w1", _tensor(784, 512))).value)).value
    hidden = editor.add(Relu(), (first,)).value
    editor.set_outputs(
        [editor.add(Matmul(), (hidden, editor.add(Weight("w2", _tensor(512, 10))).value)).value]
    )
    arrays = {"w1": np.zeros((784, 512), np.float32), "w2": np.zeros((512, 10), np.float32)}
    settings = StepSettings.from_json({"optimizer": "sgd", "loss": COTANGENTS})
    return _step_of(build_model(editor.build(), arrays), settings)


def figure2() -> Iterator[tuple[str, int, float]]:
    """Plans of figure 2 on two devices: name, elements sent in an iteration of training, microseconds."""
    cluster, step = part(named_cluster("summit-node"), 2), mlp()
    subject, mesh = step.subject, Mesh.of(cluster)
    plans = {name: found.plan(subject) for name, found in assignments(subject, mesh, _without_terms)}
    forward = {
        operation.node: label for operation, label in zip(subject.operations, (2, COPIED, 1), strict=False)
    }
    labelled = LayerDivision(subject, mesh, _without_terms, range(len(mesh.sizes)), forward)
    plans["figure 2b: rows, copies, columns"] = Assignment(mesh, tuple(labelled.choices()), {}).plan(subject)
    planner = Planner(cluster, ParallelObjective.LATENCY, layout=step.layout)
    plans["ours"] = planner.plan(step.graph).best.plan
    for name, plan in plans.items():
        simulation = simulate(step.graph, plan, cluster, ParallelObjective.LATENCY, subject.step)
        yield name, simulation.communication_bytes // 4, simulation.microseconds


def _without_terms(operation: Operation, dimension: int) -> bool:
    """Unity has no operator that adds partial sums."""
    return not isinstance(operation.splits.dimensions[dimension], TermDimension)


def _tensor(*shape: int) -> TensorType:
    return TensorType(ElementType.FLOAT, shape)

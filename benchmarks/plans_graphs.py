"""The graphs of the networks to be planned, without their weights, and parts of machines."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import onnx
from onnx import TensorProto

from superopt import zoo
from superopt.equations import parse_equation
from superopt.ir.graph import Graph, Input, Weight
from superopt.ir.types import ElementType, TensorType
from superopt.onnx_io import lift, load_model
from superopt.ops.activation import Relu
from superopt.ops.matrix import Matmul
from superopt.optimizer.canonical import canonicalise
from superopt.optimizer.parallel.cluster import named_cluster
from superopt.optimizer.parallel.experts import Assignment, assignments
from superopt.optimizer.parallel.search.mesh import Mesh
from superopt.optimizer.parallel.search.planner import Planner
from superopt.optimizer.parallel.search.subject import Subject
from superopt.optimizer.parallel.simulator import ParallelObjective, Simulator
from superopt.optimizer.parallel.topology import Cluster, Node
from superopt.rewriting import Substitution, substitutions_of


def network_graph(name: str, batch: int) -> Graph:
    """The canonical graph of a network of the zoo; its weights are a file of holes."""
    blueprint = zoo.blueprint(name, batch=batch)
    model = onnx.ModelProto()
    model.CopyFrom(blueprint.skeleton)
    with tempfile.TemporaryDirectory(prefix="superopt-") as directory:
        size = 0
        for tensor in model.graph.initializer:
            if tensor.name in blueprint.draws:
                length = 4 * blueprint.draws[tensor.name].size
                tensor.data_location = TensorProto.EXTERNAL
                del tensor.external_data[:]
                for key, value in (("location", "weights"), ("offset", str(size)), ("length", str(length))):
                    tensor.external_data.add(key=key, value=value)
                size += -(-length // 4096) * 4096
        with (Path(directory) / "weights").open("wb") as file:
            file.truncate(size)
        path = Path(directory) / "model.onnx"
        path.write_bytes(model.SerializeToString())
        return canonicalise(lift(load_model(path))).graph


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
    path = Path(__file__).parent.parent / "substitution_db" / "library.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return tuple(
        substitution
        for row in rows
        if row.get("status") == "verified"
        for substitution in substitutions_of(parse_equation(row["equation"]), row["id"])
    )


def mlp() -> Graph:
    """The two layers of Unity's figure 2: 64 samples, 784 to 512 to 10."""
    editor = Graph.empty().edit()
    x = editor.add(Input("x", _tensor(64, 784))).value
    first = editor.add(Matmul(), (x, editor.add(Weight("w1", _tensor(784, 512))).value)).value
    hidden = editor.add(Relu(), (first,)).value
    editor.set_outputs(
        [editor.add(Matmul(), (hidden, editor.add(Weight("w2", _tensor(512, 10))).value)).value]
    )
    return editor.build()


def figure2() -> Iterator[tuple[str, int, float]]:
    """Plans of figure 2 on two devices: name, elements sent in an iteration of training, microseconds."""
    cluster = part(named_cluster("summit-node"), 2)
    subject = Subject.of(mlp())
    simulator = Simulator(subject.graph, cluster, ParallelObjective.TRAINING)
    mesh = Mesh.of(cluster)
    plans = {name: found.plan(subject) for name, found in assignments(subject, mesh)}
    plans["figure 2b: rows, copies, columns"] = Assignment(mesh, ((2,), (-1,), (1,)), {}).plan(subject)
    plans["columns, columns, rows"] = Assignment(mesh, ((1,), (1,), (2,)), {}).plan(subject)
    plans["ours"] = Planner(cluster, ParallelObjective.TRAINING).plan(subject.graph).best.plan
    for name, plan in plans.items():
        simulation = simulator.simulate(plan)
        yield name, simulation.communication_bytes // 4, simulation.microseconds


def _tensor(*shape: int) -> TensorType:
    return TensorType(ElementType.FLOAT, shape)

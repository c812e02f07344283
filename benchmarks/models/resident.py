"""Compares predicted peak memory with the resident size of ONNX Runtime.

    python -m benchmarks resident [NETWORK:BATCH ...] [--inference NETWORK:BATCH ...]

Training steps (AdamW) and inference models of the zoo run in a process of their own, in the order of the
file, with one thread, as models with a memory plan do. Bytes that the process had before it loaded the model
are subtracted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from superopt import zoo
from superopt.onnx_io import SourceModel, load_model
from superopt.optimizer.cost.resident import session_bytes
from superopt.optimizer.cost.runtime.memory_session import PROPERTY, Allocator, MemoryPlan
from superopt.optimizer.memory.liveness import liveness
from superopt.optimizer.memory.subject import StepOutputs, measured, node_program
from superopt.training import StepSettings, train_graph

STEPS = ("light-resnet18:4096", "light-bert:512", "resnet18:8", "light-u-net:512")
INFERENCE = ("vgg16:8", "bert-base:8")


@dataclass(frozen=True, slots=True)
class Row:
    """Predicted bytes of a model's tensors, and resident bytes."""

    network: str
    kind: str
    nodes: int
    predicted: int
    resident: int

    @property
    def session(self) -> int:
        """Bytes that the runtime needs for the graph itself."""
        return session_bytes(self.nodes)

    def text(self) -> str:
        """The row of the table; megabytes."""
        share = self.resident / (self.predicted + self.session)
        cells = (
            self.network,
            self.kind,
            self.nodes,
            f"{self.predicted / 1e6:.0f}",
            f"{self.session / 1e6:.0f}",
            f"{self.resident / 1e6:.0f}",
        )
        return f"| {' | '.join(map(str, cells))} | {share:.3f} |"


def main() -> None:
    """Prints the table row by row."""
    parser = argparse.ArgumentParser(prog="benchmarks resident", description=__doc__)
    parser.add_argument("steps", nargs="*", help="training steps of these networks of the zoo")
    parser.add_argument("--inference", nargs="*", default=None)
    given = parser.parse_args()
    has_given = bool(given.steps) or given.inference is not None
    steps = given.steps if has_given else STEPS
    inference = (given.inference or ()) if has_given else INFERENCE
    sys.stdout.write(
        "| network | kind | nodes | tensors MB | session MB | resident MB | ratio |\n"
        "|---|---|---|---|---|---|---|\n"
    )
    for row in rows(steps, inference):
        sys.stdout.write(row.text() + "\n")
        sys.stdout.flush()


def rows(steps: tuple[str, ...], inference: tuple[str, ...]) -> Iterator[Row]:
    """The rows, measured one after another."""
    for kind, named in (("step", steps), ("inference", inference)):
        for one in named:
            name, _, batch = one.partition(":")
            model = zoo.build(name, batch=int(batch or 1))
            if kind == "step":
                model = train_graph(model, StepSettings()).step.model.to_proto()
            yield _row(one, kind, model)


def _row(network: str, kind: str, model: onnx.ModelProto) -> Row:
    plan = MemoryPlan(1 << 62, 0, Allocator.SYSTEM)
    model.metadata_props.add(key=PROPERTY, value=plan.to_text())
    source = load_model(model)
    predicted = liveness(node_program(source).program).peak
    found = measured(source, feeds_of(source), threads=1)
    return Row(network, kind, len(model.graph.node), predicted, 0 if found is None else found.bytes)


def feeds_of(source: SourceModel) -> dict[str, np.ndarray]:
    """Arrays for the inputs that have no value in the model: random numbers, and 0 where they are whole."""
    random = np.random.default_rng(0)
    states = StepOutputs.of(source.proto, source.name).inputs.values()
    feeds: dict[str, np.ndarray] = {}
    for value in source.proto.graph.input:
        if value.name in source.tensors or value.name in states:
            continue
        shape = [dimension.dim_value for dimension in value.type.tensor_type.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        drawn = random.standard_normal(shape) if dtype.kind == "f" else np.zeros(shape)
        feeds[value.name] = drawn.astype(dtype)
    return feeds


if __name__ == "__main__":
    main()

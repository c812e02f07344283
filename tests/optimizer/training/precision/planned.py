"""Steps of a small perceptron in mixed precision, on a device that starts kernels at once."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from superopt import zoo
from superopt.axioms.loader import load_axioms
from superopt.ir.graph import Graph
from superopt.ops.elementwise.precision import Cast
from superopt.optimizer.parallel.topology import DeviceKind
from superopt.optimizer.training.precision.formats import FORMATS
from superopt.optimizer.training.step import BuiltStep, build_step
from superopt.step_options import PrecisionSettings, StepSettings, UpdateSettings

if TYPE_CHECKING:
    import onnx

DEVICE = DeviceKind("a device", flops=1e12, half_flops=8e12, memory_bandwidth=1e12, launch=0.0)


@cache
def model() -> onnx.ModelProto:
    """A perceptron with two hidden layers for batches of 16."""
    return zoo.build("light-mlp", batch=16)


def step(update: UpdateSettings | None = None, **precision: Any) -> BuiltStep:
    """The step of the perceptron with these settings."""
    settings = StepSettings(precision=PrecisionSettings(**precision))
    return build_step(
        model(), replace(settings, update=update or UpdateSettings()), load_axioms().adjoints, DEVICE
    )


def count_casts(graph: Graph) -> int:
    """The number of casts to a format of 16 bits, which is that of pairs of casts."""
    return sum(isinstance(node.operator, Cast) and node.operator.to in FORMATS for node in graph)

"""Training steps written by hand, and the same training in plain numpy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from superopt.optimizer.training.description import (
    ConstantRate,
    LearningRate,
    RateInput,
    Role,
    State,
    StepDescription,
    write_description,
)

Arrays = dict[str, np.ndarray]
FEATURES, HIDDEN = 5, 7
MOMENTUM = 0.9
RATE = 0.05
MLP_RATE = 0.01


@dataclass
class StepBuilder:
    """Collects nodes, states and their initial values."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    initial: Arrays = field(default_factory=dict)
    constants: Arrays = field(default_factory=dict)

    def node(self, operator: str, inputs: Sequence[str], output: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(operator, inputs, [output], **attributes))
        return output

    def constant(self, name: str, value: object, dtype: type = np.float32) -> str:
        self.constants[name] = np.asarray(value, dtype)
        return name

    def state(self, name: str, role: Role, initial: np.ndarray, of: str | None = None) -> str:
        self.states.append(State(name, role, name, f"{name}.next", of))
        self.initial[name] = initial
        return name

    def update(self, name: str, gradient: str, momentum: float) -> None:
        """Stochastic gradient descent, with a moment unless ``momentum`` is 0."""
        change = gradient
        if momentum:
            moment = self.state(f"{name}.moment", Role.MOMENT, np.zeros_like(self.initial[name]), of=name)
            self.constant("momentum", momentum)
            kept = self.node("Mul", [moment, "momentum"], f"{name}.kept")
            change = self.node("Add", [kept, gradient], f"{moment}.next")
        scaled = self.node("Mul", ["learning_rate", change], f"{name}.change")
        self.node("Sub", [name, scaled], f"{name}.next")

    def model(
        self, batch: int | str, learning_rate: LearningRate, targets: tuple[int, ...] = (1,)
    ) -> onnx.ModelProto:
        """The step over inputs ``x`` [batch, FEATURES] and ``targets``; ``learning_rate`` is an input, or
        the constant of this name."""
        inputs = [_info("x", (batch, FEATURES)), _info("targets", (batch, *targets))]
        inputs += [_info(name, value.shape, value.dtype) for name, value in self.initial.items()]
        if isinstance(learning_rate, RateInput):
            inputs.append(_info("learning_rate", ()))
        outputs = [_info("loss", ())]
        outputs += [_info(f"{name}.next", value.shape, value.dtype) for name, value in self.initial.items()]
        tensors = {**self.initial, **self.constants}
        graph = helper.make_graph(
            *(self.nodes, "step", inputs, outputs),
            initializer=[numpy_helper.from_array(value, name) for name, value in tensors.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
        write_description(
            model, StepDescription("loss", "sgd", tuple(self.states), ("x", "targets"), learning_rate)
        )
        return model


def _info(name: str, shape: Sequence[int | str], dtype: object = np.float32) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)


def linear_step(
    *,
    momentum: float = 0.0,
    batch: int | str = "batch",
    learning_rate: LearningRate = ConstantRate(RATE),  # noqa: B008
) -> onnx.ModelProto:
    """Linear regression by mean squared error, with states ``w``, ``b``, ``step`` and moments."""
    build = StepBuilder()
    random = np.random.default_rng(7)
    build.state("w", Role.PARAMETER, random.normal(size=(FEATURES, 1)).astype(np.float32))
    build.state("b", Role.PARAMETER, np.zeros(1, np.float32))
    build.state("step", Role.COUNTER, np.zeros((), np.int64))
    if isinstance(learning_rate, ConstantRate):
        build.constant("learning_rate", learning_rate.constant)
    product = build.node("MatMul", ["x", "w"], "product")
    _loss_and_gradient(build, build.node("Add", [product, "b"], "y"))
    build.node("MatMul", [build.node("Transpose", ["x"], "x.t", perm=[1, 0]), "dy"], "dw")
    build.node("ReduceSum", ["dy", build.constant("rows", [0], np.int64)], "db", keepdims=0)
    build.update("w", "dw", momentum)
    build.update("b", "db", momentum)
    build.node("Add", ["step", build.constant("one", 1, np.int64)], "step.next")
    return build.model(batch, learning_rate)


def mlp_step(*, batch: int | str = "batch", learning_rate: float = MLP_RATE) -> onnx.ModelProto:
    """Two layers with tanh, mean squared error, momentum; gradients by hand."""
    build = StepBuilder()
    for name, value in mlp_weights().items():
        build.state(name, Role.PARAMETER, value)
    build.constant("learning_rate", learning_rate)
    build.constant("rows", [0], np.int64)
    first = build.node("Add", [build.node("MatMul", ["x", "w1"], "a"), "b1"], "z")
    build.node("Tanh", [first], "h")
    _loss_and_gradient(build, build.node("Add", [build.node("MatMul", ["h", "w2"], "c"), "b2"], "y"))
    build.node("MatMul", [build.node("Transpose", ["h"], "h.t", perm=[1, 0]), "dy"], "dw2")
    build.node("ReduceSum", ["dy", "rows"], "db2", keepdims=0)
    build.node("MatMul", ["dy", build.node("Transpose", ["w2"], "w2.t", perm=[1, 0])], "dh")
    build.node("Sub", [build.constant("unit", 1), build.node("Mul", ["h", "h"], "hh")], "slope")
    build.node("Mul", ["dh", "slope"], "dz")
    build.node("MatMul", [build.node("Transpose", ["x"], "x.t", perm=[1, 0]), "dz"], "dw1")
    build.node("ReduceSum", ["dz", "rows"], "db1", keepdims=0)
    for name in mlp_weights():
        build.update(name, f"d{name}", MOMENTUM)
    return build.model(batch, ConstantRate(learning_rate))


def mlp_weights() -> Arrays:
    """The initial weights of ``mlp_step``."""
    random = np.random.default_rng(11)
    shapes = {"w1": (FEATURES, HIDDEN), "b1": (HIDDEN,), "w2": (HIDDEN, 1), "b2": (1,)}
    return {name: random.normal(size=shape, scale=0.5).astype(np.float32) for name, shape in shapes.items()}


def _loss_and_gradient(build: StepBuilder, y: str) -> None:
    """Output ``loss``, the mean of (y − targets)², and its gradient ``dy``."""
    build.node("Sub", [y, "targets"], "d")
    build.node("ReduceMean", [build.node("Mul", ["d", "d"], "dd")], "loss", keepdims=0)
    build.node("Cast", [build.node("Size", ["d"], "count")], "n", to=TensorProto.FLOAT)
    build.node("Div", [build.constant("two", 2), "n"], "share")
    build.node("Mul", ["d", "share"], "dy")


def samples(count: int, seed: int = 3) -> Arrays:
    """Inputs and noisy linear targets."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(count, FEATURES)).astype(np.float32)
    slope = np.arange(1, FEATURES + 1, dtype=np.float32)[:, None]
    noise = random.normal(size=(count, 1), scale=0.1).astype(np.float32)
    return {"x": x, "targets": x @ slope + 1 + noise}


def linear_losses(
    batches: Sequence[Mapping[str, np.ndarray]], momentum: float = 0.0, rate: float = RATE
) -> Iterator[float]:
    """The losses of ``linear_step`` in float64."""
    initial = np.random.default_rng(7).normal(size=(FEATURES, 1)).astype(np.float32)
    weights = {"w": initial.astype(np.float64), "b": np.zeros(1)}
    moments = {name: np.zeros_like(value) for name, value in weights.items()}
    for batch in batches:
        x, targets = (batch[name].astype(np.float64) for name in ("x", "targets"))
        d = x @ weights["w"] + weights["b"] - targets
        yield float(np.mean(d * d))
        dy = 2 * d / d.size
        _update(weights, moments, {"w": x.T @ dy, "b": dy.sum(axis=0)}, momentum, rate)


def mlp_losses(batches: Sequence[Mapping[str, np.ndarray]]) -> Iterator[float]:
    """The losses of ``mlp_step`` in float64."""
    weights = {name: value.astype(np.float64) for name, value in mlp_weights().items()}
    moments = {name: np.zeros_like(value) for name, value in weights.items()}
    for batch in batches:
        x, targets = (batch[name].astype(np.float64) for name in ("x", "targets"))
        h = np.tanh(x @ weights["w1"] + weights["b1"])
        d = h @ weights["w2"] + weights["b2"] - targets
        yield float(np.mean(d * d))
        dy = 2 * d / d.size
        dz = dy @ weights["w2"].T * (1 - h * h)
        gradients = {"w1": x.T @ dz, "b1": dz.sum(axis=0), "w2": h.T @ dy, "b2": dy.sum(axis=0)}
        _update(weights, moments, gradients, MOMENTUM, MLP_RATE)


def _update(
    weights: Arrays, moments: Arrays, gradients: Mapping[str, np.ndarray], momentum: float, rate: float
) -> None:
    for name, gradient in gradients.items():
        moments[name] = momentum * moments[name] + gradient
        weights[name] = weights[name] - rate * moments[name]

"""The gradients of a random model by its training step, against differences in float64."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from superopt.axioms.loader import load_axioms
from superopt.equations.adjoints import Adjoint
from superopt.errors import SuperoptError
from superopt.optimizer.training.step import build_step
from superopt.step_options import LossSettings, ModelSettings, StepSettings, UpdateSettings
from tests.onnx_io.kit import session
from tests.optimizer.training.graph_growth import OPSETS, Grown, Growth, UnfitError
from tests.optimizer.training.graph_templates import TEMPLATES
from tests.optimizer.training.numpy_onnx import evaluate
from tests.optimizer.training.onnx_call import Array, Arrays, Real

TOLERANCE = 1e-5
"""The largest error of a gradient along a direction, relative to the norms of both."""

SMALLEST_SCALE = 0.1
"""Gradients of smaller norm are compared as if they had this one."""

NOISE_FACTOR = 30
"""How much more than a change in the last digits of all numbers rounding may change a gradient."""

SHARES = np.array([share for _, share in TEMPLATES]) / sum(share for _, share in TEMPLATES)


@dataclass(frozen=True)
class Outcome:
    """What became of the model of a seed: the number of gradients compared, and sentences about what is
    wrong, and why it was refused, empty if it is not."""

    seed: int
    opset: int
    gradients: int = 0
    wrong: str = ""
    refused: str = ""


def grown(seed: int) -> Grown:
    """The random model of a seed. Raises UnfitError where nothing that depends on weights came of it."""
    random = np.random.default_rng(seed)
    growth = Growth(random, int(random.choice(OPSETS)), dynamic=bool(random.random() < 0.2))
    batch = growth.number(1, 3)
    for _ in range(growth.number(1, 2)):
        rank = int(random.choice([2, 3, 4, 5], p=[0.28, 0.14, 0.56, 0.02]))
        growth.input((batch, growth.number(1, 4), *growth.numbers(2, 5, rank - 2)))
    wanted = growth.number(5, 25)
    for _ in range(10 * wanted):
        if len(growth.nodes) >= wanted:
            break
        template = TEMPLATES[int(random.choice(len(TEMPLATES), p=SHARES))][0]
        try:
            template(growth)
        except UnfitError:
            continue
    if growth.chance(0.1):
        growth.weight((2, 3), -2, 2)
    return growth.finished()


def checked(seed: int, adjoints: Sequence[Adjoint] | None = None) -> Outcome:
    """Builds the step of a random model, runs it, and compares its loss and gradients. What is wrong is so
    for two sets of inputs: near a kink, differences in float64 and gradients in float32 may disagree."""
    model = grown(seed)
    opset = model.model.opset_import[0].version
    settings = StepSettings(
        ModelSettings(trainable=tuple(model.weights)) if seed % 2 else ModelSettings(),
        LossSettings(loss="cotangents"),
        UpdateSettings(optimizer="momentum"),
    )
    try:
        stated = load_axioms().adjoints if adjoints is None else adjoints
        content = build_step(model.model.SerializeToString(), settings, stated).model.to_bytes()
    except SuperoptError as error:
        return Outcome(seed, opset, refused=str(error))
    except Exception as error:  # noqa: BLE001 - any other exception is a finding
        return Outcome(seed, opset, wrong=f"train-graph fails: {error!r}")
    wrong = ""
    for attempt in range(2):
        try:
            comparison = _Comparison(model, session(content), np.random.default_rng([seed, attempt]))
            wrong = next(comparison.findings(), "")
        except Exception as error:  # noqa: BLE001 - as ONNX Runtime raises, which has no common base
            return Outcome(seed, opset, wrong=f"the step does not run: {error}")
        if not wrong:
            return Outcome(seed, opset, len(comparison.gradients))
    return Outcome(seed, opset, wrong=wrong)


class _Comparison:
    """One call of a step, with random inputs and cotangents."""

    def __init__(
        self, model: Grown, runtime: onnxruntime.InferenceSession, random: np.random.Generator
    ) -> None:
        self._model = model
        self._random = random
        self._inputs: dict[str, Array] = {
            name: random.normal(size=array.shape).astype(np.float32) for name, array in model.inputs.items()
        }
        self._values = evaluate(model.model, self._inputs)
        self._seeds = {
            name: random.normal(size=self._values[name].shape).astype(np.float32) for name in model.outputs
        }
        feeds = {**self._inputs, **{f"{name}.cotangent": array for name, array in self._seeds.items()}}
        names = [output.name for output in runtime.get_outputs()]

        def run(replaced: Arrays) -> dict[str, Array]:
            return dict(zip(names, runtime.run(None, {**feeds, **replaced}), strict=True))

        found = run({})
        self._loss = float(found["loss"])
        self.gradients = _gradients(found)
        self._moved = _gradients(run(self._shaken()))

    def _shaken(self) -> dict[str, Array]:
        """Inputs and parameters changed in their last digits."""
        arrays = {**self._inputs, **{name: self._model.weights[name] for name in self.gradients}}
        signs = {name: self._random.choice([-1, 1], array.shape) for name, array in arrays.items()}
        return {
            name: np.asarray(array * (1 + 3e-7 * signs[name]), np.float32) for name, array in arrays.items()
        }

    def findings(self) -> Iterator[str]:
        """Sentences about a loss or gradients that are wrong."""
        products = [self._values[name] * seed for name, seed in self._seeds.items()]
        expected = sum(float(product.sum()) for product in products)
        size = 1e-3 + sum(float(np.abs(product).sum()) for product in products)
        if not abs(self._loss - expected) <= TOLERANCE * size:
            yield f"loss {self._loss}, expected {expected}, the sum of terms of {size}"
        for name, gradient in self.gradients.items():
            if not np.isfinite(gradient).all():
                yield f"the gradient of {name} is not finite"
                continue
            for way in self._ways(gradient.shape):
                yield from self._slope_differs(name, gradient, way)

    def _ways(self, shape: tuple[int, ...]) -> Iterator[Real]:
        """A direction in which all elements count, and one of a single element."""
        yield self._random.normal(size=shape)
        single = np.zeros(shape)
        single[tuple(self._random.integers(0, shape))] = 1
        yield single

    def _slope_differs(self, name: str, gradient: Array, way: Real) -> Iterator[str]:
        found = float((gradient * way).sum())
        scale = max(float(np.linalg.norm(gradient)), SMALLEST_SCALE) * float(np.linalg.norm(way))
        noise = np.abs(self._moved[name] - gradient).max(initial=0) * np.linalg.norm(way)
        bound = TOLERANCE * scale + NOISE_FACTOR * float(noise)
        slopes = [self._slope(name, way, step) for step in (1e-6, 1e-7, 1e-5)]
        if all(not abs(found - slope) <= bound for slope in slopes):
            yield f"gradient of {name} along a direction: {found}, expected {slopes[0]} within {bound}"

    def _slope(self, name: str, way: Real, step: float) -> float:
        """The derivative along a direction, by a central difference."""
        start = self._model.weights[name].astype(np.float64)
        ahead, behind = self._at({name: start + step * way}), self._at({name: start - step * way})
        return (ahead - behind) / (2 * step)

    def _at(self, weights: Mapping[str, NDArray[np.float64]]) -> float:
        with np.errstate(all="ignore"):
            values = evaluate(self._model.model, {**self._inputs, **weights})
        return sum(float((values[name] * seed).sum()) for name, seed in self._seeds.items())


def _gradients(outputs: Arrays) -> dict[str, Array]:
    """Before the first step, momentum is 0, and after it the gradient."""
    ending = ".momentum.next"
    return {name.removesuffix(ending): array for name, array in outputs.items() if name.endswith(ending)}

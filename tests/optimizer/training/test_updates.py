"""Updates in a graph are those of PyTorch's optimisers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np
import pytest

from superopt.domains import Array
from superopt.errors import InvalidModelError, InvalidOptionError
from superopt.ir import ElementType, Graph
from superopt.optimizer.training.schedules import parse_schedule
from superopt.optimizer.training.updates import add_updates
from superopt.step_options import UpdateSettings
from tests.optimizer.training.kit import Trainer, given
from tests.optimizer.training.reference import CHANGES, Reference, clipped

STEPS = 20
OPTIMIZERS = tuple(CHANGES)
SCALES = {"weight": (3, 4), "bias": (4,), "gain": ()}


def parameters() -> dict[str, Array]:
    random = np.random.default_rng(0)
    return {name: np.asarray(random.normal(size=shape)) for name, shape in SCALES.items()}


def gradients(count: int = STEPS, scale: float = 1.0) -> Iterator[dict[str, Array]]:
    random = np.random.default_rng(1)
    for _ in range(count):
        yield {name: np.asarray(random.normal(size=shape) * scale) for name, shape in SCALES.items()}


def agree(trainer: Trainer, reference: Reference, rtol: float = 2e-5) -> None:
    for name, expected in reference.states.items():
        np.testing.assert_allclose(trainer.values[name], expected, rtol=rtol, atol=rtol, err_msg=name)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("decay", [None, 0.1])
def test_an_optimiser_is_that_of_pytorch(optimizer: str, decay: float | None) -> None:
    trainer = Trainer(parameters(), UpdateSettings(optimizer=optimizer, weight_decay=decay))
    reference = Reference(optimizer, parameters(), decay)
    assert {state.name for state in trainer.added.states if state.of is None} == {"step"}
    for gradient in gradients():
        trainer.step(gradient)
        reference.update(gradient)
        agree(trainer, reference)
    assert trainer.values["step"] == STEPS + 1
    assert trainer.values.keys() - {"step"} == reference.states.keys()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_double_precision_is_kept(optimizer: str) -> None:
    elements = dict.fromkeys(SCALES, ElementType.DOUBLE)
    trainer = Trainer(parameters(), UpdateSettings(optimizer=optimizer), elements)
    reference = Reference(optimizer, parameters())
    for gradient in gradients():
        trainer.step(gradient)
        reference.update(gradient)
    agree(trainer, reference, 1e-12)


def test_a_parameter_of_half_precision_has_moments_of_single_precision() -> None:
    trainer = Trainer(parameters(), UpdateSettings(), {"weight": ElementType.FLOAT16})
    trainer.steps(gradients())
    kinds = {name: value.dtype for name, value in trainer.values.items()}
    assert kinds["weight"] == np.float16
    assert kinds["weight.exp_avg_sq"] == kinds["bias"] == np.float32
    reference = Reference("adamw", parameters())
    for gradient in gradients():
        reference.update(gradient)
    np.testing.assert_allclose(trainer.values["weight"], reference.parameters["weight"], atol=5e-3)


@pytest.mark.parametrize("decay", [None, 0.1])
def test_pytorch_agrees(decay: float | None) -> None:
    torch = pytest.importorskip("torch")
    more = {} if decay is None else {"weight_decay": decay}
    kinds = {
        "sgd": lambda p: torch.optim.SGD(p, **more),
        "momentum": lambda p: torch.optim.SGD(p, momentum=0.9, **more),
        "nesterov": lambda p: torch.optim.SGD(p, momentum=0.9, nesterov=True, **more),
        "adam": lambda p: torch.optim.Adam(p, **more),
        "adamw": lambda p: torch.optim.AdamW(p, **more),
        "adagrad": lambda p: torch.optim.Adagrad(p, **more),
        "rmsprop": lambda p: torch.optim.RMSprop(p, **more),
    }
    for optimizer, kind in kinds.items():
        own = {name: torch.nn.Parameter(torch.tensor(array)) for name, array in parameters().items()}
        theirs = kind(list(own.values()))
        reference = Reference(optimizer, parameters(), decay)
        for gradient in gradients():
            for name, parameter in own.items():
                parameter.grad = torch.tensor(gradient[name])
            torch.nn.utils.clip_grad_norm_(list(own.values()), 3.0)
            theirs.step()
            reference.update(clipped(gradient, 3.0))
        for name, parameter in own.items():
            np.testing.assert_allclose(reference.parameters[name], parameter.detach().numpy(), rtol=1e-9)


@pytest.mark.parametrize("largest", [0.5, 3.0, 1e9])
def test_gradients_are_clipped_by_their_common_norm(largest: float) -> None:
    trainer = Trainer(parameters(), UpdateSettings(optimizer="sgd", learning_rate=1.0, clip_norm=largest))
    reference = Reference("sgd", parameters())
    for gradient in gradients():
        trainer.step(gradient)
        reference.update(clipped(gradient, largest), 1.0)
    agree(trainer, reference)


def test_parameters_of_several_types_are_clipped_together() -> None:
    settings = UpdateSettings(optimizer="adam", clip_norm=0.5, schedule="step:every=4,factor=0.5")
    trainer = Trainer(parameters(), settings, {"weight": ElementType.DOUBLE, "gain": ElementType.FLOAT16})
    reference = Reference("adam", parameters())
    for index, gradient in enumerate(gradients()):
        trainer.step(gradient)
        reference.update(clipped(gradient, 0.5), 0.001 * 0.5 ** (index // 4))
    agree(trainer, reference, 2e-3)
    assert trainer.values["weight"].dtype == np.float64


def test_adam_may_forget_at_once() -> None:
    trainer = Trainer(parameters(), UpdateSettings(optimizer="adam", beta1=0.0, beta2=0.0))
    before = trainer.values
    (gradient,) = gradients(1)
    trainer.step(gradient)
    for name, values in parameters().items():
        signs = np.sign(gradient[name])
        np.testing.assert_allclose(trainer.values[name], values - 0.001 * signs, rtol=1e-5, err_msg=name)
        assert before[name].shape == trainer.values[name].shape


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_gradients_of_zero_leave_parameters_without_decay_alone(optimizer: str) -> None:
    settings = UpdateSettings(optimizer=optimizer, clip_norm=1.0, weight_decay=0.0)
    trainer = Trainer(parameters(), settings)
    trainer.steps(gradients(3, scale=0.0))
    for name, before in parameters().items():
        np.testing.assert_array_equal(trainer.values[name], before.astype(np.float32))


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adamw"])
@pytest.mark.parametrize("calls", [2, 5])
def test_every_kth_call_updates_by_the_mean_gradient(optimizer: str, calls: int) -> None:
    settings = UpdateSettings(
        optimizer=optimizer, accumulate=calls, clip_norm=1.0, schedule="linear:warmup=2,total=6"
    )
    trainer, reference = Trainer(parameters(), settings), Reference(optimizer, parameters())
    waiting: list[Mapping[str, Array]] = []
    for gradient in gradients():
        before = trainer.values
        trainer.step(gradient)
        waiting.append(gradient)
        if len(waiting) < calls:
            same = [name for name in before if "accumulated" not in name and name != "microstep"]
            assert all(np.array_equal(before[name], trainer.values[name]) for name in same)
            assert trainer.values["microstep"] == len(waiting) + 1
            continue
        mean = {name: np.mean([one[name] for one in waiting], axis=0) for name in SCALES}
        rate = 0.001 * min((reference.updates + 1) / 2, max(0.0, (6 - reference.updates) / 4), 1.0)
        reference.update(clipped(mean, 1.0), rate)
        agree(trainer, reference)
        waiting = []
        assert trainer.values["microstep"] == 1
        assert trainer.values["step"] == reference.updates + 1
        assert not any(trainer.values[f"{name}.accumulated"].any() for name in SCALES)
    assert reference.updates == STEPS // calls


def test_one_call_for_an_update_needs_no_accumulators() -> None:
    names = [state.name for state in Trainer(parameters(), UpdateSettings(accumulate=1)).added.states]
    assert names[0] == "step"
    assert not [name for name in names if "accumulated" in name or name == "microstep"]


def half_cosine(share: float) -> float:
    return 0.5 * (1 + math.cos(math.pi * min(max(share, 0.0), 1.0)))


FACTORS = {
    "constant": lambda _: 1.0,
    "constant:warmup=4": lambda t: min(1.0, t / 4),
    "linear:total=8": lambda t: max(0.0, (9 - t) / 8),
    "linear:warmup=5,total=15": lambda t: min(1.0, t / 5, max(0.0, (16 - t) / 10)),
    "cosine:total=12": lambda t: half_cosine((t - 1) / 12),
    "cosine:warmup=3,total=13,end=0.1": lambda t: min(1.0, t / 3) * (0.1 + 0.9 * half_cosine((t - 4) / 10)),
    "step:every=3,factor=0.1": lambda t: 0.1 ** ((t - 1) // 3),
    "step:every=1,factor=1.5": lambda t: 1.5 ** (t - 1),
}


@pytest.mark.parametrize("schedule", FACTORS)
@pytest.mark.parametrize("element", [ElementType.FLOAT, ElementType.DOUBLE])
def test_a_schedule_is_the_factor_of_the_rate(schedule: str, element: ElementType) -> None:
    settings = UpdateSettings(optimizer="sgd", learning_rate=0.5, schedule=schedule)
    trainer = Trainer({"p": np.zeros(1)}, settings, {"p": element})
    tolerance = 2e-6 if element is ElementType.FLOAT else 1e-12
    for update in range(1, STEPS + 1):
        before = trainer.values["p"].copy()
        trainer.values["p"] = np.zeros_like(before)
        trainer.step({"p": np.full(1, -1.0)})
        expected = 0.5 * FACTORS[schedule](update)
        np.testing.assert_allclose(trainer.values["p"], expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("schedule", FACTORS)
@pytest.mark.parametrize("calls", [2, 3])
def test_a_schedule_counts_updates_not_calls(schedule: str, calls: int) -> None:
    settings = UpdateSettings(optimizer="sgd", learning_rate=0.5, schedule=schedule, accumulate=calls)
    trainer = Trainer({"p": np.zeros(1)}, settings)
    for update in range(1, STEPS // calls + 1):
        trainer.values["p"] = np.zeros_like(trainer.values["p"])
        for _ in range(calls):
            trainer.step({"p": np.full(1, -1.0)})
        expected = 0.5 * FACTORS[schedule](update)
        np.testing.assert_allclose(trainer.values["p"], expected, rtol=2e-6, atol=2e-6)


def test_the_rate_may_be_an_input() -> None:
    settings = UpdateSettings(optimizer="adam", learning_rate="input", schedule="step:every=5,factor=0.5")
    trainer, reference = Trainer(parameters(), settings), Reference("adam", parameters())
    assert trainer.added.inputs == ("learning_rate",)
    for index, gradient in enumerate(gradients()):
        trainer.step(gradient, learning_rate=np.asarray(0.01 * (index + 1), np.float32))
        reference.update(gradient, 0.01 * (index + 1) * 0.5 ** (index // 5))
    agree(trainer, reference)


@pytest.mark.parametrize(
    ("settings", "decayed"),
    [
        (UpdateSettings(learning_rate=1.0, weight_decay=0.5), {"weight", "bias", "gain"}),
        (UpdateSettings(learning_rate=1.0, weight_decay=0.5, decayed="matrices"), {"weight"}),
        (UpdateSettings(learning_rate=1.0, weight_decay=0.5, no_decay=("b*", "gain")), {"weight"}),
    ],
)
def test_weight_decay_may_be_limited(settings: UpdateSettings, decayed: set[str]) -> None:
    trainer = Trainer(parameters(), settings)
    trainer.steps(gradients(1, scale=0.0))
    halved = {name for name, before in parameters().items() if not np.allclose(trainer.values[name], before)}
    assert halved == decayed
    for name in decayed:
        np.testing.assert_allclose(trainer.values[name], parameters()[name] / 2, rtol=1e-6)


def test_states_say_what_they_are() -> None:
    states = Trainer(parameters(), UpdateSettings(optimizer="adam", accumulate=2)).added.states
    found = {state.name: (state.role, state.of) for state in states if state.of in (None, "bias")}
    assert found == {
        "step": ("counter", None),
        "microstep": ("counter", None),
        "bias.accumulated": ("accumulator", "bias"),
        "bias.exp_avg": ("moment", "bias"),
        "bias.exp_avg_sq": ("second_moment", "bias"),
    }
    assert all(state.initial.shape == SCALES[state.of] for state in states if state.of)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimizer": "lion"}, "optimizer: expected one of sgd, .*, got 'lion'"),
        ({"learning_rate": -1.0}, "learning_rate: expected a number, at least 0 and at most 1e.38, got -1.0"),
        ({"learning_rate": math.nan}, "learning_rate: expected a number.*, got nan"),
        ({"beta2": 1.0}, "beta2: expected a number of at least 0 and below 1, got 1"),
        ({"accumulate": 0}, "accumulate: expected a whole number, at least 1, got 0"),
        ({"clip_norm": 0.0}, "clip_norm: expected a number, above 0, got 0.0"),
        ({"decayed": "biases"}, "decayed: expected one of all, matrices, got 'biases'"),
        (
            {"momentum": 0.9, "optimizer": "sgd"},
            "momentum: expected the optimizer momentum or nesterov, got sgd",
        ),
        ({"beta1": 0.9, "optimizer": "rmsprop"}, "beta1: expected the optimizer adam or adamw, got rmsprop"),
        ({"rmsprop_alpha": 0.5}, "rmsprop_alpha: expected the optimizer rmsprop, got adamw"),
        (
            {"epsilon": 1e-8, "optimizer": "nesterov"},
            "epsilon: expected the optimizer adam or .*, got nesterov",
        ),
        (
            {"decayed": "matrices", "optimizer": "sgd"},
            "decayed: expected a weight decay above 0 with it, got none",
        ),
        ({"no_decay": ("b*",), "weight_decay": 0.0}, "no_decay: expected a weight decay above 0"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        UpdateSettings(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ("cosine", "schedule: expected one of constant.*, got 'cosine'"),
        ("linear:total=5,total=6", "schedule: expected one of"),
        ("linear:total=5,warmup=5", "schedule: expected .* updates of at least 6, got 5"),
        ("linear:total=many", "schedule: expected one of"),
        ("step:every=1,factor=0", "schedule: expected a positive factor, got 0"),
        ("cosine:total=3,end=2", "schedule: expected end between 0 and 1, got 2"),
        ("constant:end=1", "schedule: expected one of"),
    ],
)
def test_a_schedule_that_makes_no_sense_is_named(schedule: str, message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        parse_schedule(schedule)


def test_the_values_of_a_schedule_have_any_order() -> None:
    one, other = "cosine:end=0.5,total=9,warmup=1", "cosine:warmup=1,total=9,end=0.5"
    assert parse_schedule(one) == parse_schedule(other)


def test_what_cannot_be_updated_is_named() -> None:
    def updates(shape: tuple[int | str, ...], element: ElementType, name: str, pattern: str = "w*") -> None:
        editor = Graph.empty().edit()
        value, gradient = given(editor, name, shape, element), given(editor, "g", (3,))
        add_updates(editor, {name: (value, gradient)}, UpdateSettings(no_decay=(pattern,)))

    with pytest.raises(InvalidModelError, match=r"parameter w: expected a floating point tensor .*\[n\]"):
        updates(("n",), ElementType.FLOAT, "w")
    with pytest.raises(InvalidModelError, match=r"parameter w: expected a floating point tensor .*i64"):
        updates((3,), ElementType.INT64, "w")
    with pytest.raises(InvalidModelError, match=r"parameter w: expected a gradient f64\[3\], got f32\[3\]"):
        updates((3,), ElementType.DOUBLE, "w")
    with pytest.raises(InvalidOptionError, match=r"no_decay: expected a pattern .* got 'bias'"):
        updates((3,), ElementType.FLOAT, "w", "bias")
    with pytest.raises(InvalidModelError, match="without a tensor named 'step'"):
        updates((3,), ElementType.FLOAT, "step", "*")

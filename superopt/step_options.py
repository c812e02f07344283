"""Options of a training step: what of a model is trained, its loss, how parameters are updated, precision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Literal, cast

from superopt.errors import InvalidOptionError
from superopt.option import Choice, Option, Surface
from superopt.option_table import OptionTable, declared, keep_plain, mismatches, require

RATE_INPUT: Literal["input"] = "input"
"""The learning rate that is an input of the step."""

SCHEDULES = (
    "constant[:warmup=W], linear:warmup=W,total=T, cosine:warmup=W,total=T,end=E, step:every=N,factor=F"
)
"""Forms of the schedule. W and T count updates; E and F are shares of the base rate."""
_SCHEDULE = r"[a-z]+(:[a-z]+=[0-9.e+-]+(,[a-z]+=[0-9.e+-]+)*)?"

CROSS_ENTROPY, MEAN_SQUARE, MEAN_ABSOLUTE, COTANGENTS = "cross-entropy", "mse", "l1", "cotangents"
"""The losses; any other name is that of an output."""

_LARGEST = 1e38
"""Larger numbers have no value in single precision."""

_LOSS = (
    "What is minimised: cross-entropy, mse, l1, the name of an output that is the loss, or cotangents for "
    "gradients of the outputs times inputs of that name"
)
_LABELS = (
    Choice("classes", "class numbers in the input `labels`"),
    Choice("probabilities", "a probability of every class in the input `targets`"),
)
_OPTIMIZERS = (
    Choice("sgd", "stochastic gradient descent"),
    Choice("momentum", "with momentum"),
    Choice("nesterov", "with Nesterov's momentum"),
    Choice("adam", "with weight decay as a term of the gradient"),
    Choice("adamw", "Adam with decoupled weight decay"),
    Choice("adagrad", "by the sum of squared gradients"),
    Choice("rmsprop", "by a moving mean of squared gradients"),
)
_DECAYED = (
    Choice("all", "all parameters"),
    Choice("matrices", "parameters of rank 2 and more, which biases and factors of normalisations are not"),
)

_RATES = {"sgd": 1e-3, "momentum": 1e-3, "nesterov": 1e-3, "adam": 1e-3, "adamw": 1e-3}
_OTHER_RATE = 1e-2
_EPSILONS = {"adagrad": 1e-10}
_OTHER_EPSILON = 1e-8
_DECAYS = {"adamw": 1e-2}
_MOMENTUM, _BETA1, _BETA2, _ALPHA = 0.9, 0.9, 0.999, 0.99

_ADAMS, _VELOCITIES = ("adam", "adamw"), ("momentum", "nesterov")
_READ_BY: Mapping[str, tuple[str, ...]] = {
    "momentum": _VELOCITIES,
    "beta1": _ADAMS,
    "beta2": _ADAMS,
    "rmsprop_alpha": ("rmsprop",),
    "epsilon": (*_ADAMS, "adagrad", "rmsprop"),
}
"""The optimisers that read an option, of those that not all read."""


@dataclass(frozen=True, slots=True)
class LossSettings:
    """The loss of a training step. Raises InvalidOptionError for a value that makes no sense."""

    loss: Annotated[str, Option(_LOSS)] = CROSS_ENTROPY
    label_kind: Annotated[str, Option("What cross-entropy is given as labels", _LABELS)] = "classes"
    class_axis: Annotated[
        int | None, Option("The axis of the classes", unset="1, but the last of a prediction of rank 3")
    ] = None
    label_smoothing: Annotated[
        float, Option("Share of the labels that is spread over all classes", least=0, most=1)
    ] = 0.0
    ignore_index: Annotated[
        int, Option("Positions with this label do not count", least=-(2**31), most=2**31 - 1)
    ] = -100

    def __post_init__(self) -> None:
        _require_valid(LOSS_OPTIONS, self)
        names = ("label_kind", "class_axis", "label_smoothing", "ignore_index")
        given = {each.name for each in fields(self) if getattr(self, each.name) != each.default}
        for name in names if self.loss != CROSS_ENTROPY else ():
            if name in given:
                raise InvalidOptionError(
                    f"{name}: expected the loss {CROSS_ENTROPY} with it, got {self.loss}"
                )
        if self.label_kind != "classes" and "ignore_index" in given:
            raise InvalidOptionError(f"ignore_index: expected labels classes with it, got {self.label_kind}")


@dataclass(frozen=True, slots=True)
class UpdateSettings:
    """How gradients update parameters; defaults are those of PyTorch's optimisers, except for a momentum of
    0.9. Raises InvalidOptionError for a value that makes no sense."""

    optimizer: Annotated[str, Option("The optimiser", _OPTIMIZERS)] = "adamw"
    learning_rate: Annotated[
        float | Literal["input"] | None,
        Option(
            "The learning rate, or input for an input of the step of that name",
            unset="0.01 for adagrad and rmsprop, else 0.001",
            least=0,
            most=_LARGEST,
            word=RATE_INPUT,
        ),
    ] = None
    schedule: Annotated[
        str,
        Option(
            f"Factor of the learning rate by update: {SCHEDULES}",
            pattern=_SCHEDULE,
            form=f"one of {SCHEDULES}",
        ),
    ] = "constant"
    momentum: Annotated[
        float | None, Option("Momentum of momentum and nesterov", unset=str(_MOMENTUM), least=0, most=1)
    ] = None
    beta1: Annotated[
        float | None,
        Option("Decay of Adam's mean of gradients, below 1", unset=str(_BETA1), least=0, most=1),
    ] = None
    beta2: Annotated[
        float | None,
        Option("Decay of Adam's mean of their squares, below 1", unset=str(_BETA2), least=0, most=1),
    ] = None
    rmsprop_alpha: Annotated[
        float | None,
        Option("Decay of RMSprop's mean of squared gradients", unset=str(_ALPHA), least=0, most=1),
    ] = None
    epsilon: Annotated[
        float | None, Option("Term of divisors", unset="1e-10 for adagrad, else 1e-8", least=0, most=_LARGEST)
    ] = None
    weight_decay: Annotated[
        float | None, Option("Weight decay", unset="0.01 for adamw, else none", least=0, most=_LARGEST)
    ] = None
    decayed: Annotated[str, Option("What weight decay applies to", _DECAYED)] = "all"
    no_decay: Annotated[
        tuple[str, ...], Option("No weight decay for parameters with a name of this form", unset="none")
    ] = ()
    clip_norm: Annotated[
        float | None, Option("Largest norm of all gradients together", unset="no limit", above=0)
    ] = None
    accumulate: Annotated[int, Option("Calls whose mean gradient makes one update", least=1)] = 1

    def __post_init__(self) -> None:
        _require_valid(UPDATE_OPTIONS, self)
        for name in ("beta1", "beta2"):
            if getattr(self, name) == 1:
                raise InvalidOptionError(f"{name}: expected a number of at least 0 and below 1, got 1")
        for name, readers in _READ_BY.items():
            if getattr(self, name) is not None and self.optimizer not in readers:
                known = " or ".join(readers)
                raise InvalidOptionError(f"{name}: expected the optimizer {known}, got {self.optimizer}")
        if not self.decay_rate:
            for name, is_given in (("decayed", self.decayed != "all"), ("no_decay", bool(self.no_decay))):
                if is_given:
                    raise InvalidOptionError(f"{name}: expected a weight decay above 0 with it, got none")

    @property
    def base_rate(self) -> Fraction | None:
        """The learning rate without the schedule; None if it is an input."""
        if self.learning_rate == RATE_INPUT:
            return None
        rate = self.learning_rate
        return decimal(_RATES.get(self.optimizer, _OTHER_RATE) if rate is None else float(rate))

    @property
    def velocity_decay(self) -> float:
        """The momentum."""
        return _MOMENTUM if self.momentum is None else self.momentum

    @property
    def moment_decays(self) -> tuple[float, float]:
        """Adam's betas."""
        return _BETA1 if self.beta1 is None else self.beta1, _BETA2 if self.beta2 is None else self.beta2

    @property
    def square_decay(self) -> float:
        """RMSprop's alpha."""
        return _ALPHA if self.rmsprop_alpha is None else self.rmsprop_alpha

    @property
    def divisor_term(self) -> Fraction:
        """The epsilon."""
        own = self.epsilon
        return decimal(_EPSILONS.get(self.optimizer, _OTHER_EPSILON) if own is None else own)

    @property
    def decay_rate(self) -> Fraction:
        """The weight decay."""
        own = self.weight_decay
        return decimal(_DECAYS.get(self.optimizer, 0.0) if own is None else own)


_BATCH_NORM = (
    Choice("global", "statistics of the whole batch"),
    Choice("local", "statistics of the part of the batch that a device has"),
    Choice("frozen", "running statistics, which stay as they are"),
)
_SWITCH = (Choice("on", "masks drawn anew for every step"), Choice("off", "no masks"))


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """What of the model is trained, and how its forward pass differs from inference. Raises
    InvalidOptionError for a value that makes no sense."""

    prediction: Annotated[
        str | None, Option("The output that the loss compares", unset="the first floating-point output")
    ] = None
    trainable: Annotated[
        tuple[str, ...], Option("Train parameters with a name of this form", unset="all parameters")
    ] = ()
    frozen: Annotated[tuple[str, ...], Option("Keep parameters with a name of this form", unset="none")] = ()
    freeze: Annotated[
        Mapping[str, int],
        Option("Train at this size of an open dimension, as in batch=32", least=1, unset="all stay open"),
    ] = field(default_factory=dict[str, int])
    batch_norm: Annotated[str, Option("Statistics of batch normalisation", _BATCH_NORM)] = "global"
    running_variance: Annotated[
        str,
        Option(
            "Divisor of running variances",
            (Choice("n", "the number of elements, as ONNX"), Choice("n-1", "one less, as PyTorch")),
        ),
    ] = "n"
    dropout: Annotated[str, Option("Dropout", _SWITCH)] = "on"

    def __post_init__(self) -> None:
        _require_valid(MODEL_OPTIONS, self)


_PRECISIONS = (
    Choice("f32", "32-bit numbers"),
    Choice("bf16", "bfloat16 where operators allow it"),
    Choice("f16", "float16 where operators allow it, with a dynamic scale of the loss"),
)
_CASTS = (
    Choice("exclusive", "a reader that can fuse the cast of an operand has its own"),
    Choice("shared", "all readers of a tensor share one"),
)
_BUDGET = (
    "Choose the nodes in low precision by predicted time, so that loss and gradients change by at most this "
    "share, which is checked"
)
_DATA = "An .npz file with samples to predict and check errors with, as superopt train takes them"


@dataclass(frozen=True, slots=True)
class PrecisionSettings:
    """The precision of the nodes of a step. Raises InvalidOptionError for a value that makes no sense."""

    precision: Annotated[str, Option("Precision of products and of what follows them", _PRECISIONS)] = "f32"
    error_budget: Annotated[
        float | None, Option(_BUDGET, unset="by a list of operators, unchecked", above=0)
    ] = None
    casts: Annotated[str, Option("Casts between precisions", _CASTS)] = "exclusive"
    priced_for: Annotated[str, Option("The known device whose peaks price nodes in low precision")] = (
        "a100-sxm-80gb"
    )
    precision_data: Annotated[
        Path | None,
        Option(_DATA, unset="random", surfaces=Surface.COMMAND_LINE | Surface.PYTHON),
    ] = None

    def __post_init__(self) -> None:
        _require_valid(PRECISION_OPTIONS, self)
        if self.precision_data is not None and self.error_budget is None:
            raise InvalidOptionError("precision_data: expected an error budget with it, got none")

    @property
    def is_mixed(self) -> bool:
        """Whether nodes may run in low precision."""
        return self.precision != "f32" or self.error_budget is not None

    @property
    def low(self) -> Literal["bf16", "f16"]:
        """The format of nodes in low precision: bfloat16 for a budget alone."""
        return "f16" if self.precision == "f16" else "bf16"


LOSS_OPTIONS: OptionTable = declared(LossSettings)
UPDATE_OPTIONS: OptionTable = declared(UpdateSettings)
MODEL_OPTIONS: OptionTable = declared(ModelSettings)

PRECISION_OPTIONS: OptionTable = declared(PrecisionSettings)

STEP_OPTIONS: OptionTable = {**LOSS_OPTIONS, **UPDATE_OPTIONS, **MODEL_OPTIONS, **PRECISION_OPTIONS}
"""All options of a training step by their names in JSON."""


@dataclass(frozen=True, slots=True)
class StepSettings:
    """A training step: the model, the loss, the updates, the precision."""

    model: ModelSettings = field(default_factory=ModelSettings)
    loss: LossSettings = field(default_factory=LossSettings)
    update: UpdateSettings = field(default_factory=UpdateSettings)
    precision: PrecisionSettings = field(default_factory=PrecisionSettings)

    @classmethod
    def from_json(cls, values: Mapping[str, object]) -> StepSettings:
        """The settings from options by their names in JSON. Raises InvalidOptionError."""
        require(mismatches(STEP_OPTIONS, values, is_cluster=False))

        def own(table: OptionTable) -> dict[str, object]:
            given = {name: value for name, value in values.items() if name in table}
            return {table[name].field: table[name].parsed(value) for name, value in given.items()}

        return cls(
            ModelSettings(**own(MODEL_OPTIONS)),  # pyright: ignore[reportArgumentType]
            LossSettings(**own(LOSS_OPTIONS)),  # pyright: ignore[reportArgumentType]
            UpdateSettings(**own(UPDATE_OPTIONS)),  # pyright: ignore[reportArgumentType]
            PrecisionSettings(**own(PRECISION_OPTIONS)),  # pyright: ignore[reportArgumentType]
        )


def decimal(number: float) -> Fraction:
    """The shortest decimal fraction that rounds to the number, so that 0.1 is 1/10."""
    return Fraction(str(number))


def _require_valid(
    table: OptionTable, settings: LossSettings | UpdateSettings | ModelSettings | PrecisionSettings
) -> None:
    values = {name: cast("object", getattr(settings, option.field)) for name, option in table.items()}
    require(mismatches(table, values, is_cluster=False))
    keep_plain(table, settings)

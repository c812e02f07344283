"""Settings of a training step: its loss, and how parameters are updated."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Literal, TypeAlias, cast

from superopt.errors import InvalidOptionError
from superopt.optimizer.training.builder import decimal
from superopt.optimizer.training.schedules import SCHEDULES, Schedule, parse_schedule
from superopt.option import Choice, Option
from superopt.options import OptionTable, declared, mismatches, require

RATE_INPUT: Literal["input"] = "input"
"""The learning rate that is an input of the step."""

CROSS_ENTROPY, MEAN_SQUARE, MEAN_ABSOLUTE, COTANGENTS = "cross-entropy", "mse", "l1", "cotangents"
"""The losses; any other name is that of an output."""

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
            word=RATE_INPUT,
        ),
    ] = None
    schedule: Annotated[str, Option(f"Factor of the learning rate by update: {SCHEDULES}")] = "constant"
    momentum: Annotated[float, Option("Momentum of momentum and nesterov", least=0, most=1)] = 0.9
    beta1: Annotated[float, Option("Decay of Adam's mean of gradients, below 1", least=0, most=1)] = 0.9
    beta2: Annotated[float, Option("Decay of Adam's mean of their squares, below 1", least=0, most=1)] = 0.999
    rmsprop_alpha: Annotated[
        float, Option("Decay of RMSprop's mean of squared gradients", least=0, most=1)
    ] = 0.99
    epsilon: Annotated[
        float | None, Option("Term of divisors", unset="1e-10 for adagrad, else 1e-8", least=0)
    ] = None
    weight_decay: Annotated[
        float | None, Option("Weight decay", unset="0.01 for adamw, else none", least=0)
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
        parse_schedule(self.schedule)

    @property
    def parsed_schedule(self) -> Schedule:
        """The schedule of the learning rate."""
        return parse_schedule(self.schedule)

    @property
    def base_rate(self) -> Fraction | None:
        """The learning rate without the schedule; None if it is an input."""
        if self.learning_rate == RATE_INPUT:
            return None
        rate = self.learning_rate
        return decimal(_RATES.get(self.optimizer, _OTHER_RATE) if rate is None else float(rate))

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


Settings: TypeAlias = "LossSettings | UpdateSettings"

LOSS_OPTIONS: OptionTable = declared(LossSettings)
UPDATE_OPTIONS: OptionTable = declared(UpdateSettings)
"""The options by their names in JSON."""


def _require_valid(table: OptionTable, settings: Settings) -> None:
    values = {name: cast("object", getattr(settings, option.field)) for name, option in table.items()}
    require(mismatches(table, values, is_cluster=False))

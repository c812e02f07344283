"""Plan the precision of a step's nodes: by the list of operators, or within an error budget, checked."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from superopt.domains import Array
from superopt.equations.adjoints import Adjoint
from superopt.errors import InvalidOptionError
from superopt.ir.graph import NodeId, Value
from superopt.onnx_io import LoweredModel
from superopt.optimizer.cost import Sizes
from superopt.optimizer.parallel.documents.cluster import known_device
from superopt.optimizer.parallel.topology import DeviceKind
from superopt.optimizer.training.precision.casts import MixedGraph, PrecisionPlan, with_casts
from superopt.optimizer.training.precision.choice import ErrorSum, Prediction, choose, fitting
from superopt.optimizer.training.precision.errors import predict_errors
from superopt.optimizer.training.precision.formats import FORMATS, LowPrecision
from superopt.optimizer.training.precision.prices import Casts, Prices
from superopt.optimizer.training.precision.scaling import INITIAL_SCALE, LOSS_SCALE
from superopt.optimizer.training.precision.sensitivity import by_list, may_be_low
from superopt.optimizer.training.precision.subject import Opened, Subject
from superopt.optimizer.training.trial_batches import SAMPLES, Feeds, batches_of
from superopt.step_options import PrecisionSettings

_ATTEMPTS = 8
"""Plans that are tried for a budget. Observed errors may exceed those predicted to first order where rounding
moves numbers across a kink: the largest element of a window, zero for a rectifier."""

_LEAST_NORM = 1e-4
"""Norm of a gradient, as a share of that of all, below which its error counts as a share of this: some are
zero but for rounding, as that of a bias before a softmax."""

_CLOSE = 1.2
"""Ratio of the bounds of the target below which no further one is tried."""

_CAUTION = 0.7
"""Share of the budget that the next plan aims at, where observed errors exceed the budget."""


@dataclass(frozen=True, slots=True)
class ObservedErrors:
    """Errors that were measured beside float32 on samples: root mean squares of the loss's and of all
    gradients', as shares of the loss and of their norm, and the parameter with the largest share of its
    own."""

    loss: float
    gradients: float
    worst: str
    of_worst: float

    @property
    def largest(self) -> float:
        """What an error budget limits."""
        return max(self.loss, self.gradients)


@dataclass(frozen=True)
class Planned:
    """A plan with its graph. ``predicted`` and ``observed`` are None without a budget. ``share`` of the nodes
    that compute float32 tensors, and of the multiplications in products, are in low precision; ``before`` and
    ``after`` are microseconds on the device by its description. ``loss_scale`` is the first value of that
    state."""

    plan: PrecisionPlan
    mixed: MixedGraph
    candidates: int
    share: float
    multiplications: float
    before: float
    after: float
    loss_scale: float
    predicted: Prediction | None = None
    observed: ObservedErrors | None = None
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Planner:
    """Plans the precision of a subject in a format, by prices of a device."""

    subject: Subject
    format: LowPrecision
    device: DeviceKind
    casts: Casts

    def by_list(self) -> Planned:
        """The plan of the list of operators; nothing is run."""
        prices = self._prices()
        low = by_list(self.subject.graph, self.subject.region)
        return self._planned(low, prices, INITIAL_SCALE)

    def within(self, budget: float, adjoints: Sequence[Adjoint]) -> Planned:
        """The fastest plan that was found within a budget for loss and gradients, on the samples. Raises
        InvalidOptionError where the errors that are observed exceed it."""
        subject, number_format = self.subject, FORMATS[self.format]
        errors = predict_errors(subject, self._candidates, number_format, adjoints)
        candidates = fitting(self._candidates, errors, number_format, errors.loss_scale)
        total, prices = ErrorSum(subject.graph, errors), self._prices()
        exact = _Reference.of(subject)
        found: Planned | None = None
        low_target, high_target, target, least = 0.0, math.inf, budget, math.inf
        for _ in range(_ATTEMPTS):
            low = choose(candidates, total, prices, target)
            predicted = total.total(set(low))
            planned = self._planned(low, prices, errors.loss_scale)
            observed = exact.compared(planned.mixed, errors.loss_scale)
            planned = replace(planned, predicted=predicted, observed=observed, missing=errors.missing)
            least = min(least, observed.largest)
            if observed.largest <= budget:
                found = planned if found is None or planned.after < found.after else found
                low_target = target
                if target >= budget:
                    return found
            else:
                high_target = min(target, predicted.largest)
            if low_target and high_target <= low_target * _CLOSE:
                break
            share = _CAUTION * budget / observed.largest
            target = math.sqrt(low_target * high_target) if low_target else high_target * share
        if found is None:
            raise InvalidOptionError(
                f"error budget: expected at least {least:.2g}, the least error in {self.format} that was "
                f"found on samples, got {budget:g}"
            )
        return found

    @property
    def _candidates(self) -> frozenset[NodeId]:
        graph = self.subject.graph
        return frozenset(node for node in self.subject.region if may_be_low(graph, graph[node]))

    def _prices(self) -> Prices:
        graph = self.subject.graph
        return Prices(graph, Sizes(graph, self.subject.sizes), self.device, self.casts)

    def _planned(self, low: frozenset[NodeId], prices: Prices, scale: float) -> Planned:
        plan = PrecisionPlan(self.format, low, prices.exclusive(low))
        candidates = len(self._candidates)
        return Planned(
            plan,
            with_casts(self.subject.graph, plan),
            candidates,
            len(low) / candidates if candidates else 0.0,
            prices.multiplications(low),
            prices.total(frozenset[NodeId]()),
            prices.total(low),
            scale,
        )


def planned_by(
    settings: PrecisionSettings,
    low: LowPrecision,
    exact: LoweredModel,
    subject: Callable[[Sequence[Feeds]], Subject],
    adjoints: Sequence[Adjoint],
    device: DeviceKind | None,
) -> tuple[Planned, tuple[Feeds, ...]]:
    """The plan that settings ask for, and with an error budget the batches for which it was made: those of
    the step in float32, ``exact``. ``subject`` is given the samples. Nodes are priced for the ``device``, by
    default that of the settings."""
    budget = settings.error_budget
    batches: tuple[Feeds, ...] = ()
    if budget is not None:
        advice = "give samples with --precision-data SAMPLES.npz"
        batches = batches_of(exact.to_bytes(), settings.precision_data, "error budget", advice)
    kind = device or known_device(settings.priced_for)
    planner = Planner(subject(batches[:SAMPLES]), low, kind, cast("Casts", settings.casts))
    return (planner.by_list() if budget is None else planner.within(budget, adjoints)), batches


@dataclass(frozen=True, eq=False)
class _Reference:
    """Losses and gradients in float32 on the samples."""

    subject: Subject
    values: tuple[Mapping[Value, Array], ...]

    @staticmethod
    def of(subject: Subject) -> _Reference:
        opened = _opened(subject, None)
        return _Reference(subject, tuple(opened.run(feeds) for feeds in subject.samples))

    def compared(self, mixed: MixedGraph, scale: float) -> ObservedErrors:
        """The errors of a graph with casts."""
        subject = self.subject
        opened = _opened(subject, mixed)
        loss = 0.0
        unscaled = scale if subject.gradients_are_scaled else 1.0
        errors, norms = dict.fromkeys(subject.gradients, 0.0), dict.fromkeys(subject.gradients, 0.0)
        for feeds, exact in zip(subject.samples, self.values, strict=True):
            found = opened.run(_scaled(subject, feeds, scale))
            expected = float(exact[subject.loss].reshape(())[()])
            got = float(found[mixed.value(subject.loss)].reshape(())[()])
            loss += ((got - expected) / (expected or 1.0)) ** 2
            for name, value in subject.gradients.items():
                one = exact[value].astype(np.float64)
                other = found[mixed.value(value)].astype(np.float64) / unscaled
                errors[name] += float(np.sum((one - other) ** 2))
                norms[name] += float(np.sum(one**2))
        least = _LEAST_NORM**2 * sum(norms.values())
        shares = {name: _share(errors[name], max(norms[name], least)) for name in errors}
        worst = max(shares, key=lambda name: shares[name])
        return ObservedErrors(
            math.sqrt(loss / len(self.values)),
            _share(sum(errors.values()), sum(norms.values())),
            worst,
            shares[worst],
        )


def _opened(subject: Subject, mixed: MixedGraph | None) -> Opened:
    values = (subject.loss, *subject.gradients.values())
    if mixed is None:
        return subject.opened(subject.graph, values)
    return subject.opened(mixed.graph, [mixed.value(value) for value in values])


def _scaled(subject: Subject, feeds: Feeds, scale: float) -> Feeds:
    if subject.scale is None:
        return feeds
    return {**feeds, LOSS_SCALE: np.asarray(scale, np.float32)}


def _share(error: float, norm: float) -> float:
    if not math.isfinite(error):
        return math.inf
    return math.sqrt(error / norm) if norm else math.sqrt(error)


__all__ = ["ObservedErrors", "Planned", "Planner", "planned_by"]

"""Fit the estimator of kernels to measured ones, and test it on others."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from superopt.errors import InvalidOptionError
from superopt.optimizer.fusion.learned.estimator import ErrorDistribution, KernelEstimator, Origin
from superopt.optimizer.fusion.learned.features import KernelFeatures
from superopt.optimizer.learning.fitting import Course, fitted_to_values
from superopt.optimizer.learning.network import GraphNetwork
from superopt.optimizer.learning.trained import TrainedNetwork
from superopt.optimizer.parallel.tasks import KernelTask

LEAST_KERNELS = 50
"""The fewest measured kernels that an estimator is fitted to."""

MOST_MEMBERS = 24
"""Operators of the largest kernels that are learned from; larger ones are estimated all the same."""

_UNSEEN = 0.2
"""Share of the kernels that are not learned from, but test the estimator."""

_BATCH = 64


def fitted_estimator(
    kernels: Sequence[KernelTask],
    microseconds: Sequence[float],
    origin: Origin,
    network: tuple[int, int] = (48, 2),
    course: Course | None = None,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> KernelEstimator:
    """The estimator of measured kernels. A fifth of them, drawn by the course's seed, is not learned from but
    gives the errors. ``network`` is the width and number of layers. Raises InvalidOptionError for fewer than
    ``LEAST_KERNELS``."""
    small = [number for number, kernel in enumerate(kernels) if len(kernel.tasks) <= MOST_MEMBERS]
    if len(small) < LEAST_KERNELS:
        raise InvalidOptionError(
            f"kernels: expected at least {LEAST_KERNELS} to learn from, got {len(small)}"
        )
    course = course or Course(8000)
    random.Random(course.seed).shuffle(small)
    count = round(_UNSEEN * len(small))
    unseen, seen = small[:count], small[count:]
    features = KernelFeatures.of([kernels[number] for number in seen])
    trained = fitted_to_values(
        GraphNetwork(features.count, *network),
        [features.graph(kernels[number]) for number in seen],
        [math.log(microseconds[number]) for number in seen],
        course,
        progress,
    )
    tested = [kernels[number] for number in unseen]
    errors = errors_of(features, trained, tested, [microseconds[number] for number in unseen])
    return KernelEstimator(origin, errors, features, trained)


def errors_of(
    features: KernelFeatures,
    trained: TrainedNetwork,
    kernels: Sequence[KernelTask],
    microseconds: Sequence[float],
) -> Mapping[str, ErrorDistribution]:
    """The errors for measured kernels, by kind of kernel; kinds without a kernel are left out."""
    graphs = [features.graph(kernel) for kernel in kernels]
    values = [trained.values(graphs[start : start + _BATCH]) for start in range(0, len(graphs), _BATCH)]
    predicted, measured = np.exp(np.concatenate(values)), np.asarray(microseconds)
    kinds = {
        "all": np.ones(len(kernels), bool),
        "groups": np.array([len(kernel.tasks) > 1 for kernel in kernels]),
        "long": measured >= 20,
    }
    return {
        name: ErrorDistribution.of(predicted[chosen].astype(np.float32), measured[chosen].astype(np.float32))
        for name, chosen in kinds.items()
        if chosen.any()
    }
